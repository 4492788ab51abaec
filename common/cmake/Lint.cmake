# Tests of the sources' form: clang-format over everything, clang-tidy over what g++ compiles.
# Another version of either would judge differently, so the version is part of the name.
find_program(CLANG_FORMAT clang-format-14)
find_program(CLANG_TIDY clang-tidy-14)
mark_as_advanced(CLANG_FORMAT CLANG_TIDY)

file(GLOB_RECURSE sources RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/common/*.[ch]pp ${PROJECT_SOURCE_DIR}/common/*.cu
     ${PROJECT_SOURCE_DIR}/steps/*.[ch]pp ${PROJECT_SOURCE_DIR}/steps/*.cu
     ${PROJECT_SOURCE_DIR}/steps/*.cuh
     ${PROJECT_SOURCE_DIR}/tests/*.[ch]pp ${PROJECT_SOURCE_DIR}/tests/*.cu)

if(CLANG_FORMAT)
  add_test(NAME format COMMAND ${CLANG_FORMAT} --dry-run -Werror ${sources}
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(format PROPERTIES LABELS cpu)
endif()
if(CLANG_TIDY)
  list(FILTER sources INCLUDE REGEX "^(common|steps)/.*\\.cpp$")
  if(NOT GEMM_HAVE_CUDA)
    list(REMOVE_ITEM sources common/peers/cublas.cpp)
  endif()
  foreach(source IN LISTS sources)
    add_test(NAME tidy.${source}
             COMMAND ${CLANG_TIDY} --quiet -p ${PROJECT_BINARY_DIR} ${source}
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(tidy.${source} PROPERTIES LABELS "cpu;slow")
  endforeach()
endif()
