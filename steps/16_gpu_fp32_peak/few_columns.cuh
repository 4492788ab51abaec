// The last few columns of C, where they would fill one more column of tiles with next to nothing.
#pragma once

#include "common/launch.hpp"
#include "steps/16_gpu_fp32_peak/thread_tile.hpp"

namespace gemm {
namespace {

constexpr int few = 4;
constexpr int few_threads = 512, few_rows = 2;  // rows of C for each warp
constexpr int few_rows_of_block = few_threads / 32 * few_rows;
constexpr int few_depth = 2048;  // how much of K fits in shared memory at a time

// C = alpha * A * B + beta * C for the `columns` <= 4 columns that B and the output begin with. There
// is no reuse of A to speak of: a warp reads rows of it, 32 neighbouring floats at a time, as fast as
// memory gives them. The sum over the lanes comes in a fixed order.
__global__ void __launch_bounds__(few_threads)
    few_columns(int M, int columns, int K, const float* A, std::int64_t lda, const float* B,
                std::int64_t ldb, const Output output) {
  alignas(16) __shared__ float Bs[few_depth][few];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row0 = blockIdx.x * few_rows_of_block + warp * few_rows;
  float acc[few_rows][few] = {};

  for (int k0 = 0; k0 < K; k0 += few_depth) {
    const int depth = min(few_depth, K - k0);
    for (int i = threadIdx.x; i < depth * few; i += few_threads) {
      const int k = i / few, c = i % few;
      Bs[k][c] = c < columns ? B[(k0 + k) * ldb + c] : 0;
    }
    __syncthreads();
#pragma unroll 4
    for (int k = lane; k < depth; k += 32) {
      alignas(16) float b[few];
      copy4(b, Bs[k]);
#pragma unroll
      for (int i = 0; i < few_rows; ++i) {
        const float a = row0 + i < M ? A[(row0 + i) * lda + k0 + k] : 0;
#pragma unroll
        for (int c = 0; c < few; ++c) acc[i][c] += a * b[c];
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < few_rows; ++i) {
#pragma unroll
    for (int c = 0; c < few; ++c)
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2)
        acc[i][c] += __shfl_xor_sync(~0u, acc[i][c], distance);
    if (lane == 0) output.store4(row0 + i, 0, acc[i]);
  }
}

/// How many columns of C are better done apart than by tiles of BN columns.
constexpr int columns_apart(int N, int BN) {
  const int rest = N % BN;
  return N > BN && rest <= few ? rest : 0;
}

/// A problem without its last columns.
inline Problem without_last(const Problem& p, int columns) {
  Problem rest = p;
  rest.shape.N -= columns;
  return rest;
}

/// Sets up the last columns of a problem.
inline Run last_columns(const Problem& p, int columns) {
  const auto [M, N, K] = p.shape;
  Output output = output_of(p);
  output.C += N - columns;
  output.N = columns;
  output.aligned = false;
  return launch(few_columns, {ceil_div(M, few_rows_of_block), few_threads}, M, columns, K, p.A,
                p.lda, p.B + (N - columns), p.ldb, output);
}

}  // namespace
}  // namespace gemm
