// The kernel for every GPU, and for sizes too small for the other one: a pipeline of cp.async.
#pragma once

#if !defined(GEMM_EMULATOR)
#include <cuda_pipeline_primitives.h>
#endif

#include "common/launch.hpp"
#include "common/workspace.hpp"
#include "steps/16_gpu_fp32_peak/thread_tile.hpp"

namespace gemm {
namespace {

// What the kernel is told. With `splits` > 1 that many blocks share a tile, each takes a part of K,
// and C is a matrix for each part, `part_pitch` elements apart.
struct PortableCall {
  int M, N, K;
  const float* A;
  std::int64_t lda;
  const float* B;
  std::int64_t ldb;
  float* C;
  std::int64_t ldc;
  float alpha, beta;
  int splits = 1;
  std::int64_t part_pitch = 0;
};

// C = alpha * A * B + beta * C, row-major, any M, N, K >= 0, any leading dimensions and addresses. B
// is copied `width` floats at a time: 4 where its rows start at multiples of 16 bytes, else 1.
template <LaneMap map, int BM, int BN, int BK, int stages, int WM, int WN, int TM, int TN,
          int threads, int blocks, int width>
__global__ void __launch_bounds__(threads, blocks) portable(const PortableCall call) {
  constexpr int LM = WM / TM, LN = WN / TN;
  constexpr int lda = BM + 4;  // 8 k x 4 m of a warp's copies fall into 32 different banks
  static_assert(BM % WM == 0 && BN % WN == 0 && BM / WM * (BN / WN) * 32 == threads,
                "warp tiles cover the block tile exactly");
  static_assert(stages >= 3, "one slice is used, the next one is there, others are on their way");
  static_assert(BK % 8 == 0 && BM % (threads / 8) == 0 && BK * BN % (width * threads) == 0,
                "every thread carries the same share of a slice");
  alignas(16) __shared__ float As[stages][BK][lda];
  alignas(16) __shared__ float Bs[stages][BK][BN];

  const auto [M, N, K] = Shape{call.M, call.N, call.K};
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int tiles_n = ceil_div(N, BN);
  const int part = blockIdx.x % call.splits, tile_number = blockIdx.x / call.splits;
  const int row0 = tile_number / tiles_n * BM, col0 = tile_number % tiles_n * BN;
  const int k_begin = share_begin(K, part, call.splits, BK);
  const int k_end = share_begin(K, part + 1, call.splits, BK);
  const int slices = ceil_div(k_end - k_begin, BK);

  // 1. global -> shared, a slice at a time. What lies past an edge arrives as zero, and so does the
  //    slice after the last, of which fragments are read ahead.
  const auto start_copies = [&](int slice) {
    const int k0 = k_begin + slice * BK, stage = slice % stages;
    if (slice <= slices) {
#pragma unroll
      for (int m = tid / 8; m < BM; m += threads / 8)
#pragma unroll
        for (int k = tid % 8; k < BK; k += 8) {
          const bool inside = row0 + m < M && k0 + k < k_end;
          const float* const from = inside ? call.A + (row0 + m) * call.lda + k0 + k : call.A;
          __pipeline_memcpy_async(&As[stage][k][m], from, 4, inside ? 0 : 4);
        }
#pragma unroll
      for (int i = tid; i < BK * BN / width; i += threads) {
        const int k = i / (BN / width), n = i % (BN / width) * width;
        const int inside = k0 + k < k_end ? min(width, max(0, N - col0 - n)) : 0;
        const float* const from = inside > 0 ? call.B + (k0 + k) * call.ldb + col0 + n : call.B;
        __pipeline_memcpy_async(&Bs[stage][k][n], from, 4 * width, 4 * (width - inside));
      }
    }
    __pipeline_commit();  // an empty group too: the waits count groups
  };

  const LanePlace place = place_of<map, LM, LN>(lane);
  const int tr = warp / (BN / WN) * WM + place.row * 4, tc = warp % (BN / WN) * WN + place.col * 4;
  ThreadTile<TM, TN, LM, LN> tile;
  tile.clear();
  for (int slice = 0; slice < stages - 1; ++slice) start_copies(slice);
  __pipeline_wait_prior(stages - 2);
  __syncthreads();
  tile.read_all(0, &As[0][0][tr], &Bs[0][0][tc]);

  // 2. shared -> registers -> outer products. Fragments are read one k ahead, across the edge to the
  //    next slice too, so that one has to be there already.
#pragma unroll 1
  for (int slice = 0; slice < slices; ++slice) {
    __pipeline_wait_prior(stages - 3);
    __syncthreads();
    start_copies(slice + stages - 1);  // to where the slice before this one lay
    const int now = slice % stages, next = (slice + 1) % stages;
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      const bool edge = k + 1 == BK;
      tile.multiply(k % 2, edge ? &As[next][0][tr] : &As[now][k + 1][tr],
                    edge ? &Bs[next][0][tc] : &Bs[now][k + 1][tc]);
    }
  }

  // 3. registers -> global.
  tile.store(call.C + part * call.part_pitch, call.ldc, M, N, row0 + tr, col0 + tc, call.alpha,
             call.beta);
}

// C = alpha * (the sum of `splits` dense M x N matrices, in their order) + beta * C.
constexpr int sum_threads = 256;
__global__ void __launch_bounds__(sum_threads)
    sum_parts(int M, int N, int splits, const float* parts, float* C, std::int64_t ldc, float alpha,
              float beta) {
  const std::int64_t elements = std::int64_t{M} * N;
  const std::int64_t e = std::int64_t(blockIdx.x) * sum_threads + threadIdx.x;
  if (e >= elements) return;
  float sum = 0;
#pragma unroll 8
  for (int part = 0; part < splits; ++part) sum += parts[part * elements + e];
  float* const out = C + e / N * ldc + e % N;
  *out = alpha * sum + (beta != 0 ? beta * *out : 0);
}

}  // namespace
}  // namespace gemm
