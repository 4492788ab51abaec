// Four floats in one access of 16 bytes: the widest that a GPU thread can make.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/launch.hpp"

namespace gemm {
#if defined(GEMM_EMULATOR)
inline namespace emulator {
#else
inline namespace cuda {
#endif

/// Copies four floats in one access at each end. Both addresses must be multiples of 16 bytes.
__device__ __forceinline__ void copy4(float* to, const float* from) {
  *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
}

/// True where rows of `columns` floats from x on all start at multiples of 16 bytes.
__device__ __forceinline__ bool rows_aligned(const float* x, int columns) {
  return reinterpret_cast<std::uintptr_t>(x) % 16 == 0 && columns % 4 == 0;
}

/// Elements (r, c) .. (r, c + 3) of a dense rows x columns matrix, zero where outside; c % 4 == 0.
/// One access where the rows are aligned, up to four otherwise.
__device__ __forceinline__ float4 load4(const float* x, int rows, int columns, int r, int c) {
  float4 v = make_float4(0, 0, 0, 0);
  if (r >= rows || c >= columns) return v;
  const float* p = x + std::size_t(r) * columns + c;
  if (rows_aligned(x, columns)) return *reinterpret_cast<const float4*>(p);
  v.x = p[0];
  if (c + 1 < columns) v.y = p[1];
  if (c + 2 < columns) v.z = p[2];
  if (c + 3 < columns) v.w = p[3];
  return v;
}

/// Stores four floats from v on to (r, c) .. (r, c + 3), those that are inside; v is aligned to 16.
__device__ __forceinline__ void store4(float* x, int rows, int columns, int r, int c,
                                       const float* v) {
  if (r >= rows || c >= columns) return;
  float* p = x + std::size_t(r) * columns + c;
  if (rows_aligned(x, columns)) return copy4(p, v);
  p[0] = v[0];
  if (c + 1 < columns) p[1] = v[1];
  if (c + 2 < columns) p[2] = v[2];
  if (c + 3 < columns) p[3] = v[3];
}

}  // namespace
}  // namespace gemm
