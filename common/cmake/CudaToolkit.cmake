# Finds nvcc and chooses the architectures to compile for: what the user says, else what the GPU
# says, else a default list. Sets GEMM_HAVE_CUDA, and GEMM_CUDA_NOTE for the configure summary.

set(GEMM_HAVE_CUDA OFF)
set(GEMM_OLDEST_TOOLKIT 12.4)
set(GEMM_DEFAULT_ARCHITECTURES 80 90)

# gemm_nvcc_knows(90a result): can this toolkit compile for sm_90a? Nothing is compiled to find out.
function(gemm_nvcc_knows architecture result)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} -arch=sm_${architecture} -x cu --dryrun /dev/null
                  RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(status EQUAL 0)
    set(${result} ON PARENT_SCOPE)
  else()
    set(${result} OFF PARENT_SCOPE)
  endif()
endfunction()

# Compute capabilities of this machine's GPUs, "90" for 9.0; empty where none answers.
function(gemm_native_architectures result)
  set(capabilities "")
  find_program(NVIDIA_SMI nvidia-smi)
  mark_as_advanced(NVIDIA_SMI)
  if(NVIDIA_SMI)
    execute_process(COMMAND ${NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE answer ERROR_QUIET)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" capabilities "${answer}")
    string(REPLACE "." "" capabilities "${capabilities}")
    list(REMOVE_DUPLICATES capabilities)
  endif()
  set(${result} "${capabilities}" PARENT_SCOPE)
endfunction()

# Sets CMAKE_CUDA_ARCHITECTURES, and GEMM_CUDA_NOTE to the reason for them.
macro(gemm_choose_architectures)
  gemm_native_architectures(native)
  if(CMAKE_CUDA_ARCHITECTURES)
    foreach(architecture IN LISTS CMAKE_CUDA_ARCHITECTURES)
      # A step may need its code for 9.0 in another form, so the numbers have to be known here.
      if(NOT architecture MATCHES "^[0-9]+[af]?(-real|-virtual)?$")
        message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES=${architecture}: name numbers, such as 90 or "
                            "80;90, or leave it out, which means this machine's GPU")
      endif()
    endforeach()
    set(GEMM_CUDA_NOTE "as asked for")
  else()
    if(native)
      set(candidates ${native})
      set(GEMM_CUDA_NOTE "this machine's GPU")
    else()
      set(candidates ${GEMM_DEFAULT_ARCHITECTURES})
      set(GEMM_CUDA_NOTE "the default, no GPU answers here")
    endif()
    set(chosen "")
    foreach(architecture IN LISTS candidates)
      gemm_nvcc_knows(${architecture} known)
      if(known)
        list(APPEND chosen ${architecture})
      endif()
    endforeach()
    set(CMAKE_CUDA_ARCHITECTURES ${chosen})
  endif()
endmacro()

macro(gemm_find_cuda)
  # nvcc is often installed without being on the PATH.
  find_program(GEMM_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_PATH ENV CUDA_HOME
               PATHS /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(GEMM_NVCC)
  if(NOT CMAKE_CUDA_COMPILER AND GEMM_NVCC)
    set(CMAKE_CUDA_COMPILER ${GEMM_NVCC})
  endif()
  if(CMAKE_CUDA_COMPILER)
    execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --version OUTPUT_VARIABLE answer ERROR_QUIET)
    string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" answer "${answer}")
    set(toolkit "${CMAKE_MATCH_1}")
  endif()

  if(NOT CMAKE_CUDA_COMPILER)
    set(GEMM_CUDA_NOTE "no nvcc found")
  elseif(toolkit VERSION_LESS GEMM_OLDEST_TOOLKIT)
    set(GEMM_CUDA_NOTE "${CMAKE_CUDA_COMPILER} is ${toolkit}, ${GEMM_OLDEST_TOOLKIT} is needed")
  else()
    gemm_choose_architectures()
    include(CheckLanguage)
    check_language(CUDA)
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(GEMM_CUDA_NOTE "nvcc ${toolkit} cannot compile for this machine's GPU, sm_${native}")
    elseif(NOT CMAKE_CUDA_COMPILER)
      set(GEMM_CUDA_NOTE
          "nvcc ${toolkit} does not work with ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
    else()
      enable_language(CUDA)
      # CMake 3.25 does not know yet that nvcc speaks C++20.
      if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
        set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      endif()
      find_package(CUDAToolkit REQUIRED)
      set(GEMM_HAVE_CUDA ON)
    endif()
  endif()
endmacro()

if(GEMM_CUDA)
  gemm_find_cuda()
else()
  set(GEMM_CUDA_NOTE "GEMM_CUDA is off")
endif()

# Flags of every CUDA source.
add_library(gemm_cuda_flags INTERFACE)
target_compile_options(gemm_cuda_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -lineinfo -Xcompiler=-Wall,-Wextra>
  $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${GEMM_WERROR}>>:-Werror=all-warnings>)
