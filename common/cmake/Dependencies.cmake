# Libraries: the system's where they are installed, else fetched at a pinned commit.
# GEMM_LIBRARIES collects one line about each for the configure summary.
include(FetchContent)
set(FETCHCONTENT_QUIET OFF)
set(GEMM_LIBRARIES "")

# Fetched headers count as system headers, so that our warnings do not reach them; CMake 3.24 has
# no such option yet.
set(system_headers "")
if(CMAKE_VERSION VERSION_GREATER_EQUAL 3.25)
  set(system_headers SYSTEM)
endif()

# gemm_find_or_fetch(package target repository tag commit): `target` exists afterwards.
macro(gemm_find_or_fetch package target repository tag commit)
  find_package(${package} QUIET)
  if(TARGET ${target})
    list(APPEND GEMM_LIBRARIES "${package} ${${package}_VERSION}")
  else()
    message(STATUS "${package} is not installed: fetching ${repository} ${tag}")
    FetchContent_Declare(${package} GIT_REPOSITORY ${repository} GIT_TAG ${commit} ${system_headers})
    FetchContent_MakeAvailable(${package})
    list(APPEND GEMM_LIBRARIES "${package} ${tag} (fetched)")
  endif()
endmacro()

find_package(Threads REQUIRED)

set(BENCHMARK_ENABLE_TESTING OFF)
set(BENCHMARK_ENABLE_INSTALL OFF)
set(INSTALL_GTEST OFF)
gemm_find_or_fetch(fmt fmt::fmt https://github.com/fmtlib/fmt.git
                   10.2.1 e69e5f977d458f2650bb346dadf2ad30c5320281)
gemm_find_or_fetch(CLI11 CLI11::CLI11 https://github.com/CLIUtils/CLI11.git
                   v2.4.2 6c7b07a878ad834957b98d0f9ce1dbe0cb204fc9)
gemm_find_or_fetch(benchmark benchmark::benchmark https://github.com/google/benchmark.git
                   v1.8.3 344117638c8ff7e239044fd0fa7085839fc03021)
gemm_find_or_fetch(nlohmann_json nlohmann_json::nlohmann_json https://github.com/nlohmann/json.git
                   v3.11.3 9cca280a4d0ccf0c08f47a99aa71d1b0e52f8d03)
if(GEMM_TESTS)
  gemm_find_or_fetch(GTest GTest::gtest https://github.com/google/googletest.git
                     v1.14.0 f8d7d77c06936315286eb55f8de22cd23c188571)
endif()

find_package(OpenMP COMPONENTS CXX QUIET)
if(OpenMP_CXX_FOUND)
  list(APPEND GEMM_LIBRARIES "OpenMP ${OpenMP_CXX_VERSION}")
else()
  list(APPEND GEMM_LIBRARIES "no OpenMP (loops run on one thread)")
endif()

# The emulator's fibers. Boost is too large to fetch: without it there is no emulator.
find_package(Boost QUIET COMPONENTS context)
if(TARGET Boost::context)
  list(APPEND GEMM_LIBRARIES "Boost.Context ${Boost_VERSION_STRING}")
endif()
