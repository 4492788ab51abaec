// Copies from global to shared memory that a thread starts and does not wait for.
#pragma once

#include <cstddef>

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

/// Starts the copy of `floats` (1 or 4) elements from (r, c) on of a dense rows x columns matrix to
/// `to`; zeros where (r, c) is outside, and nothing is read then. Of four, both ends are aligned to
/// 16 bytes, and all are inside or none is.
template <int floats>
__device__ __forceinline__ void copy_async(float* to, const float* x, int rows, int columns, int r,
                                           int c) {
  constexpr int bytes = 4 * floats;
  const bool inside = r < rows && c < columns;
  __pipeline_memcpy_async(to, x + std::size_t(r) * columns + c, bytes, inside ? 0 : bytes);
}

}  // namespace
}  // namespace gemm
