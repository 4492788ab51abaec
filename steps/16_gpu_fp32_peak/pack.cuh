// What is copied before the multiplication: A transposed, so that its k-th column lies in a row, and
// B where its rows do not start at multiples of 16 bytes.
#pragma once

#include <memory>
#include <vector>

#include "common/launch.hpp"
#include "common/workspace.hpp"
#include "steps/16_gpu_fp32_peak/thread_tile.hpp"

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

/// A matrix as a kernel is to read it, and what has to be done before, if anything. It owns its
/// memory, where that is not the caller's.
struct Packed {
  const float* matrix;
  std::int64_t ld;
  std::vector<Run> before{};
  std::shared_ptr<Workspace> memory{};
};

/// A[M,K] transposed.
inline Packed transposed(const Problem& p) {
  const auto [M, N, K] = p.shape;
  const int pitch = packed_pitch(M);
  const auto memory = std::make_shared<Workspace>(std::size_t(K) * pitch);
  const std::int64_t blocks = std::int64_t{1} * ceil_div(M, pack_tile) * ceil_div(K, pack_tile);
  return {memory->data(),
          pitch,
          {launch(transpose, {blocks, pack_threads}, M, K, p.A, p.lda, memory->data(), pitch)},
          memory};
}

/// B[K,N] with rows that start at multiples of 16 bytes: in place where they do.
inline Packed aligned_rows(const Problem& p) {
  const auto [M, N, K] = p.shape;
  if (rows_start_aligned(p.B, p.ldb)) return {p.B, p.ldb};
  const int pitch = packed_pitch(N);
  const auto memory = std::make_shared<Workspace>(std::size_t(K) * pitch);
  const std::int64_t blocks = std::int64_t{K} * ceil_div(N, widen_each * pack_threads);
  return {memory->data(),
          pitch,
          {launch(widen, {blocks, pack_threads}, N, p.B, p.ldb, memory->data(), pitch)},
          memory};
}

}  // namespace
}  // namespace gemm
