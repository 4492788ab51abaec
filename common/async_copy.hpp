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

template <int bytes>
__device__ __forceinline__ void copy_async(float* to, const float* from, bool inside) {
#if defined(GEMM_EMULATOR)
  __pipeline_memcpy_async(to, from, bytes, inside ? 0 : bytes);
#else
  const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(from),
                 "r"(inside ? 4 : 0)
                 : "memory");
#endif
}

}  // namespace
}  // namespace gemm
