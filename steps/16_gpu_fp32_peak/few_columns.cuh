// The last few columns of C, where they would fill one more column of tiles with next to nothing.
#pragma once

#include "common/launch.hpp"
#include "steps/16_gpu_fp32_peak/choice.hpp"
#include "steps/16_gpu_fp32_peak/thread_tile.hpp"

namespace gemm {
namespace {

constexpr int few_threads = 256;
constexpr int few_depth = 2048;  // how much of K fits in shared memory at a time
constexpr int few_rows = 2;  // rows of C for each warp
constexpr int few_loads = 8;  // of each row, under way at the same time
constexpr int few_rows_of_block = few_threads / 32 * few_rows;

// C = alpha * A * B + beta * C for the output.N <= few columns that B and the output begin with. No
// element of A is used again: a warp reads rows of it as fast as memory gives them, 32 neighbouring
// floats at a time. The sum over the lanes comes in a fixed order.
//
// Those who need a copy of A, `pitch` floats from row to row, get it in passing (else `copy` is null).
//
// It has nothing to do with the kernel before it, and runs beside it where there is room. Only its
// first block waits for that one to be over, so that both are when this one is.
__global__ void __launch_bounds__(few_threads)
    multiply_few_columns(int K, const float* A, std::int64_t lda, const float* B, std::int64_t ldb,
                         float* copy, std::int64_t pitch, const Output output) {
  let_next_kernel_start();
  alignas(16) __shared__ float Bs[few_depth][few];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row0 = blockIdx.x * few_rows_of_block + warp * few_rows;
  float acc[few_rows][few] = {};

  for (int k0 = 0; k0 < K; k0 += few_depth) {
    const int depth = min(few_depth, K - k0);
#pragma unroll 4
    for (int k = threadIdx.x; k < depth; k += few_threads)
#pragma unroll
      for (int c = 0; c < few; ++c) Bs[k][c] = c < output.N ? B[(k0 + k) * ldb + c] : 0;
    __syncthreads();
    for (int k = lane; k < depth; k += 32 * few_loads) {
      float a[few_rows][few_loads];
#pragma unroll
      for (int i = 0; i < few_rows; ++i)
#pragma unroll
        for (int n = 0; n < few_loads; ++n)
          a[i][n] =
              row0 + i < output.M && k + 32 * n < depth ? A[(row0 + i) * lda + k0 + k + 32 * n] : 0;
#pragma unroll
      for (int n = 0; n < few_loads; ++n) {
        if (k + 32 * n >= depth) break;
        if (copy != nullptr)
#pragma unroll
          for (int i = 0; i < few_rows; ++i)
            if (row0 + i < output.M) copy[(row0 + i) * pitch + k0 + k + 32 * n] = a[i][n];
        alignas(16) float b[few];
        copy4(b, Bs[k + 32 * n]);
#pragma unroll
        for (int i = 0; i < few_rows; ++i)
#pragma unroll
          for (int c = 0; c < few; ++c) acc[i][c] += a[i][n] * b[c];
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
    if (lane == 0)
#pragma unroll
      for (int c = 0; c < few; ++c) output.finish(row0 + i, c, output.alpha * acc[i][c]);
  }
  if (blockIdx.x == 0) wait_for_kernel_before();
}

/// Sets up the multiplication of the last `columns` <= few columns. `beside` the kernel before it, which
/// must be one of the same multiplication: what came before that is over. With a place for it, A is
/// copied.
inline Run run_few_columns(const Problem& p, int columns, bool beside, float* copy = nullptr,
                           std::int64_t pitch = 0) {
  const int first = p.shape.N - columns;
  Output output = output_of(p);
  output.C += first;
  output.N = columns;
  output.aligned = false;
  const Grid grid{
      .blocks = ceil_div(p.shape.M, few_rows_of_block), .threads = few_threads, .early = beside};
  return launch(multiply_few_columns, grid, p.shape.K, p.A, p.lda, p.B + first, p.ldb, copy, pitch,
                output);
}

/// Bytes that it asks for: each block reads all of B into shared memory, each of its warps from there.
inline Traffic few_columns_traffic(Shape s, int columns) {
  if (columns == 0) return {};
  const std::int64_t M = s.M, K = s.K, blocks = ceil_div(s.M, few_rows_of_block);
  constexpr int warps = few_threads / 32;
  return {.global_loaded = 4 * (M * K + blocks * K * columns),
          .global_stored = 4 * M * columns,
          .shared_loaded = 4 * blocks * warps * K * few,
          .shared_stored = 4 * blocks * K * few};
}

}  // namespace
}  // namespace gemm
