// What is done before the multiplication, in one launch: A transposed, so that its k-th column lies
// in a row; B copied, where its rows do not start at multiples of 16 bytes; and the last few columns
// of C, where they would fill one more column of tiles with next to nothing.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "common/launch.hpp"
#include "common/workspace.hpp"
#include "steps/16_gpu_fp32_peak/choice.hpp"
#include "steps/16_gpu_fp32_peak/thread_tile.hpp"

namespace gemm {
namespace {

constexpr int pack_threads = 256;

constexpr int transpose_tile = 64;
constexpr int few_depth = 1024;  // how much of K fits in shared memory at a time

// What a block keeps in shared memory, for one thing or the other.
union PackMemory {
  float tile[transpose_tile][transpose_tile + 1];
  alignas(16) float Bs[few_depth][few];
};

// At[K][pitch] = A[M][K] transposed; columns from M up to the pitch are not written. A block moves
// transpose_tile x transpose_tile elements through shared memory: read along k, written along m.
__device__ __forceinline__ void transpose(int block, int M, int K, const float* A, std::int64_t lda,
                                          float* At, std::int64_t pitch, PackMemory& memory) {
  auto& tile = memory.tile;
  constexpr int rows = pack_threads / transpose_tile;
  const int tiles_k = ceil_div(K, transpose_tile);
  const int m0 = block / tiles_k * transpose_tile, k0 = block % tiles_k * transpose_tile;
  const int fast = threadIdx.x % transpose_tile, slow = threadIdx.x / transpose_tile;
#pragma unroll
  for (int i = 0; i < transpose_tile; i += rows) {
    const int m = m0 + slow + i, k = k0 + fast;
    if (m < M && k < K) tile[slow + i][fast] = A[m * lda + k];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < transpose_tile; i += rows) {
    const int k = k0 + slow + i, m = m0 + fast;
    if (k < K && m < M) At[k * pitch + m] = tile[fast][slow + i];
  }
}

// Bp[K][pitch] = B[K][N]: the same rows, further apart. A block moves a part of one row.
constexpr int widen_part = 8 * pack_threads;
__device__ __forceinline__ void widen(int block, int N, const float* B, std::int64_t ldb, float* Bp,
                                      std::int64_t pitch) {
  const int parts = ceil_div(N, widen_part);
  const std::int64_t k = block / parts;
  const int n0 = block % parts * widen_part + threadIdx.x;
#pragma unroll
  for (int i = 0; i < widen_part; i += pack_threads)
    if (n0 + i < N) Bp[k * pitch + n0 + i] = B[k * ldb + n0 + i];
}

// C = alpha * A * B + beta * C for the `columns` <= few columns that B and the output begin with. No
// element of A is used again: a warp reads rows of it as fast as memory gives them, 32 neighbouring
// floats at a time. The sum over the lanes comes in a fixed order.
constexpr int few_rows = 2;  // rows of C for each warp
constexpr int few_rows_of_block = pack_threads / 32 * few_rows;
__device__ __forceinline__ void multiply_few_columns(int block, int M, int columns, int K,
                                                     const float* A, std::int64_t lda,
                                                     const float* B, std::int64_t ldb,
                                                     const Output& output, PackMemory& memory) {
  auto& Bs = memory.Bs;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row0 = block * few_rows_of_block + warp * few_rows;
  float acc[few_rows][few] = {};

  for (int k0 = 0; k0 < K; k0 += few_depth) {
    const int depth = min(few_depth, K - k0);
#pragma unroll 4
    for (int k = threadIdx.x; k < depth; k += pack_threads)
#pragma unroll
      for (int c = 0; c < few; ++c) Bs[k][c] = c < columns ? B[(k0 + k) * ldb + c] : 0;
    __syncthreads();
#pragma unroll 8
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

// What has to be done; no blocks where there is nothing.
struct PackCall {
  int M, N, K, columns;
  const float* A;
  std::int64_t lda;
  float* At;
  std::int64_t a_pitch;
  const float* B;
  std::int64_t ldb;
  float* Bp;
  std::int64_t b_pitch;
  Output output;  // of the last columns
  std::int64_t transposing, widening, multiplying;  // blocks
};

__global__ void __launch_bounds__(pack_threads) pack_operands(const PackCall call) {
  __shared__ PackMemory memory;
  let_next_kernel_start();
  int block = blockIdx.x;
  if (block < call.transposing)
    return transpose(block, call.M, call.K, call.A, call.lda, call.At, call.a_pitch, memory);
  block -= call.transposing;
  if (block < call.widening) return widen(block, call.N, call.B, call.ldb, call.Bp, call.b_pitch);
  block -= call.widening;
  multiply_few_columns(block, call.M, call.columns, call.K, call.A, call.lda, call.B + call.N,
                       call.ldb, call.output, memory);
}

/// Operands as the kernel reads them, and what has to be done before, if anything.
struct Packed {
  const float* At = nullptr;
  std::int64_t a_pitch = 0;
  const float* B = nullptr;
  std::int64_t ldb = 0;
  std::vector<Run> before{};
  std::shared_ptr<Workspace> memory_a{}, memory_b{};
};

/// Sets up whatever a problem needs; its last `apart` columns are multiplied in passing.
inline Packed pack(const Problem& p, bool transposed, int apart) {
  const int M = p.shape.M, N = p.shape.N - apart, K = p.shape.K;
  // Columns of a packed row: so that rows start at multiples of 16 bytes.
  const auto pitch_of = [](int columns) { return std::int64_t{ceil_div(columns, 4)} * 4; };
  Packed packed{.B = p.B, .ldb = p.ldb};
  PackCall call{.M = M,
                .N = N,
                .K = K,
                .columns = apart,
                .A = p.A,
                .lda = p.lda,
                .At = nullptr,
                .a_pitch = 0,
                .B = p.B,
                .ldb = p.ldb,
                .Bp = nullptr,
                .b_pitch = 0,
                .output = output_of(p),
                .transposing = 0,
                .widening = 0,
                .multiplying = 0};
  if (transposed) {
    packed.a_pitch = call.a_pitch = pitch_of(M);
    packed.memory_a = std::make_shared<Workspace>(std::size_t(K) * call.a_pitch);
    packed.At = call.At = packed.memory_a->data();
    call.transposing = std::int64_t{1} * ceil_div(M, transpose_tile) * ceil_div(K, transpose_tile);
  }
  if (!rows_start_aligned(p.B, p.ldb)) {
    packed.ldb = call.b_pitch = pitch_of(N);
    packed.memory_b = std::make_shared<Workspace>(std::size_t(K) * call.b_pitch);
    packed.B = call.Bp = packed.memory_b->data();
    call.widening = std::int64_t{K} * ceil_div(N, widen_part);
  }
  if (apart > 0) {
    call.output.C += N;
    call.output.N = apart;
    call.output.aligned = false;
    call.multiplying = ceil_div(M, few_rows_of_block);
  }
  const std::int64_t blocks = call.transposing + call.widening + call.multiplying;
  if (blocks > 0) packed.before.push_back(launch(pack_operands, {blocks, pack_threads}, call));
  return packed;
}

/// Bytes that it asks for, of a dense B.
inline Traffic pack_traffic(Shape s, bool transposed, int apart) {
  const std::int64_t M = s.M, N = s.N - apart, K = s.K;
  const std::int64_t moved_a = transposed ? M * K : 0, moved_b = s.N % 4 != 0 ? K * N : 0;
  // Of those apart, each block reads all of B into shared memory, and each of its warps from there.
  const std::int64_t read_a = apart > 0 ? M * K : 0;
  const std::int64_t blocks = apart > 0 ? ceil_div(s.M, few_rows_of_block) : 0;
  constexpr int warps = pack_threads / 32;
  return {.global_loaded = 4 * (moved_a + moved_b + read_a + blocks * K * apart),
          .global_stored = 4 * (moved_a + moved_b + M * apart),
          .shared_loaded = 4 * (moved_a + blocks * warps * K * few),
          .shared_stored = 4 * (moved_a + blocks * K * few)};
}

}  // namespace
}  // namespace gemm
