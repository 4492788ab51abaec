// What is copied before the multiplication: A transposed, so that its k-th column lies in a row, and
// B where its rows do not start at multiples of 16 bytes.
#pragma once

#include "common/launch.hpp"

namespace gemm {
namespace {

/// Columns of a packed row: rows of it start at multiples of 16 bytes.
constexpr int packed_pitch(int columns) { return ceil_div(columns, 4) * 4; }

constexpr int pack_tile = 64, pack_threads = 256;

// At[K][pitch] = A[M][K] transposed; columns from M up to the pitch are not written. A block moves
// pack_tile x pack_tile elements through shared memory: read along k, written along m.
__global__ void __launch_bounds__(pack_threads)
    transpose(int M, int K, const float* A, std::int64_t lda, float* At, int pitch) {
  __shared__ float tile[pack_tile][pack_tile + 1];
  constexpr int rows = pack_threads / pack_tile;
  const int tiles_k = ceil_div(K, pack_tile);
  const int m0 = blockIdx.x / tiles_k * pack_tile, k0 = blockIdx.x % tiles_k * pack_tile;
  const int fast = threadIdx.x % pack_tile, slow = threadIdx.x / pack_tile;

#pragma unroll
  for (int i = 0; i < pack_tile; i += rows) {
    const int m = m0 + slow + i, k = k0 + fast;
    if (m < M && k < K) tile[slow + i][fast] = A[m * lda + k];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < pack_tile; i += rows) {
    const int k = k0 + slow + i, m = m0 + fast;
    if (k < K && m < M) At[std::size_t(k) * pitch + m] = tile[fast][slow + i];
  }
}

// Bp[K][pitch] = B[K][N]: the same rows, further apart. A block moves a part of one row.
constexpr int widen_each = 4;

__global__ void __launch_bounds__(pack_threads)
    widen(int N, const float* B, std::int64_t ldb, float* Bp, int pitch) {
  const int parts = ceil_div(N, widen_each * pack_threads);
  const std::int64_t k = blockIdx.x / parts;
  const int n0 = blockIdx.x % parts * widen_each * pack_threads + threadIdx.x;
#pragma unroll
  for (int i = 0; i < widen_each; ++i)
    if (const int n = n0 + i * pack_threads; n < N) Bp[k * pitch + n] = B[k * ldb + n];
}

/// Sets up At = A transposed.
inline Run transposing(int M, int K, const float* A, std::int64_t lda, float* At) {
  return launch(transpose,
                {std::int64_t{1} * ceil_div(M, pack_tile) * ceil_div(K, pack_tile), pack_threads},
                M, K, A, lda, At, packed_pitch(M));
}

/// Sets up Bp = B with rows that start at multiples of 16 bytes.
inline Run widening(int K, int N, const float* B, std::int64_t ldb, float* Bp) {
  return launch(widen, {std::int64_t{K} * ceil_div(N, widen_each * pack_threads), pack_threads}, N,
                B, ldb, Bp, packed_pitch(N));
}

}  // namespace
}  // namespace gemm
