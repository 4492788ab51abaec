// Copies from global to shared memory that a thread starts and does not wait for.
#pragma once

#include "common/launch.hpp"

#if !defined(GEMM_EMULATOR)
#include <cuda_pipeline_primitives.h>
#endif

namespace gemm {
#if defined(GEMM_EMULATOR)
inline namespace emulator {
#else
inline namespace cuda {
#endif

/// Starts the copy of `floats` (1 or 4) from global to shared memory; both addresses are multiples
/// of their size. The first `inside` of them are read, the others are zeros; with none inside, `from`
/// may be anything. It belongs to the group of copies that this thread's next __pipeline_commit ends.
/// PTX ISA, Data Movement and Conversion Instructions: cp.async. The primitive of the toolkit wants
/// the number of zeros when compiling, which would make two instructions of this.
template <int floats>
__device__ __forceinline__ void copy_async(float* to, const float* from, int inside) {
  static_assert(floats == 1 || floats == 4);
#if __CUDA_ARCH__ >= 800
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (floats == 4)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from),
                 "r"(4 * inside)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(from),
                 "r"(4 * inside)
                 : "memory");
#else
  // The emulator; and GPUs without such an instruction, where the thread copies and waits.
  __pipeline_memcpy_async(to, from, 4 * floats, 4 * (floats - inside));
#endif
}

}  // namespace
}  // namespace gemm
