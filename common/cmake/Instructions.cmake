# The instructions that CPU steps are compiled for: GEMM_MARCH, as a value of the compiler's -march.
#   GEMM_MARCH_FLAGS    what that is on the command line
#   GEMM_INSTRUCTIONS   extensions of x86-64 that the compiler then uses unasked, by the names of
#                       __builtin_cpu_supports; empty on other CPUs
set(GEMM_MARCH native CACHE STRING
    "Instructions of the CPU steps, a value of -march; empty: the compiler's default")

set(GEMM_MARCH_FLAGS "")
if(NOT GEMM_MARCH STREQUAL "")
  set(GEMM_MARCH_FLAGS -march=${GEMM_MARCH})
endif()

# gemm_macros_under(flags variable): the compiler's own macros, or an empty text where it does not
# know one of the flags.
function(gemm_macros_under flags variable)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} ${flags} -dM -E -x c++ /dev/null
                  RESULT_VARIABLE status OUTPUT_VARIABLE macros ERROR_QUIET)
  if(NOT status STREQUAL "0")
    set(macros "")
  endif()
  set(${variable} "${macros}" PARENT_SCOPE)
endfunction()

gemm_macros_under("${GEMM_MARCH_FLAGS}" macros)
if(NOT macros)
  message(FATAL_ERROR "GEMM_MARCH=${GEMM_MARCH}: ${CMAKE_CXX_COMPILER} does not know -march=${GEMM_MARCH}; "
    "choose native, x86-64-v3, or another value that its manual lists")
endif()

# Bit-twiddling too: an older CPU takes lzcnt and tzcnt for other instructions and goes on, wrongly.
set(extensions sse4.1 sse4.2 popcnt bmi bmi2 avx avx2 fma fma4 xop avx512f avx512cd avx512bw avx512dq
  avx512vl avx512ifma avx512vbmi avx512vbmi2 avx512bitalg avx512vpopcntdq avx512vnni avx512bf16
  lzcnt movbe f16c avxvnni avx512fp16)
set(GEMM_INSTRUCTIONS "")
foreach(extension IN LISTS extensions)
  string(TOUPPER ${extension} macro)
  string(REPLACE "." "_" macro ${macro})
  if(macros MATCHES "#define __${macro}__ ")
    list(APPEND GEMM_INSTRUCTIONS ${extension})
  endif()
endforeach()

# For some CPUs with 512-bit vectors, compilers are tuned to use no more than half of one.
if("avx512f" IN_LIST GEMM_INSTRUCTIONS)
  gemm_macros_under("${GEMM_MARCH_FLAGS};-mprefer-vector-width=512" macros)
  if(macros)
    list(APPEND GEMM_MARCH_FLAGS -mprefer-vector-width=512)
  endif()
endif()
