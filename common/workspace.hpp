// Memory of a kernel's own: copies of its operands, packed or not, and sums on their way.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#if defined(GEMM_EMULATOR)
#include "common/simt/emulator.hpp"
#elif defined(__CUDACC__)
#include <cuda_runtime.h>
#endif

namespace gemm {

#if defined(GEMM_EMULATOR)
inline namespace emulator {
#elif defined(__CUDACC__)
inline namespace cuda {
#else
inline namespace cpu {
#endif

/// Room for `floats` floats in the memory of the device that this file is compiled for, not
/// initialised, aligned to 256 bytes and more; on the emulator, what is read and written there is
/// counted like an operand. Throws std::bad_alloc.
class Workspace {
 public:
  explicit Workspace(std::size_t floats)
      : bytes_((floats * sizeof(float) + page) / page * page), memory_(allocate(bytes_)) {
    if (!memory_) throw std::bad_alloc();
  }

  float* data() const { return memory_.get(); }

 private:
  static constexpr std::size_t page = 4096;

#if defined(__CUDACC__)
  static float* allocate(std::size_t bytes) {
    void* memory = nullptr;
    if (cudaMalloc(&memory, bytes) == cudaSuccess) return static_cast<float*>(memory);
    cudaGetLastError();  // this failure is told by other means
    return nullptr;
  }
  struct Free {
    void operator()(float* memory) const { cudaFree(memory); }
  };
#else
  static float* allocate(std::size_t bytes) {
    return static_cast<float*>(std::aligned_alloc(page, bytes));
  }
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
#endif

  std::size_t bytes_;
  std::unique_ptr<float, Free> memory_;
#if defined(GEMM_EMULATOR)
  simt::DeviceBuffer counted_{memory_.get(), bytes_, "a workspace"};
#endif
};

}  // namespace
}  // namespace gemm
