// The kernel for every GPU, and for sizes too small for the other one: a pipeline of cp.async.
#pragma once

#include <algorithm>
#include <memory>

#include "common/async_copy.hpp"
#include "common/launch.hpp"
#include "common/model/traffic.hpp"
#include "common/workspace.hpp"
#include "steps/16_gpu_fp32_peak/ring.hpp"
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
  Output output;
  int splits = 1;
  std::int64_t part_pitch = 0;
};

// C = alpha * A * B + beta * C, row-major, any M, N, K >= 0, any leading dimensions and addresses. B
// is copied `width` floats at a time: 4 where its rows start at multiples of 16 bytes, else 1.
template <LaneMap map, int BM, int BN, int BK, int stages, int WM, int WN, int TM, int TN,
          int threads, int blocks, int width>
__global__ void __launch_bounds__(threads, blocks) portable(const PortableCall call) {
  constexpr int LM = WM / TM, LN = WN / TN;
  static_assert(BM % WM == 0 && BN % WN == 0 && BM / WM * (BN / WN) * 32 == threads,
                "warp tiles cover the block tile exactly");
  static_assert(stages >= 3, "one slice is used, the next one is there, others are on their way");
  constexpr int a_rows = threads / 8, b_rows = threads / (BN / width);
  static_assert(BK % 8 == 0 && BM % a_rows == 0 && b_rows > 0 && BK % b_rows == 0 &&
                    b_rows * (BN / width) == threads,
                "every thread copies the same share of a slice");
  auto& ring = *reinterpret_cast<Ring<transposed_pitch(BM), BN, BK, stages>*>(dynamic_shared);

  let_next_kernel_start();  // that which sums up the parts
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
  const int a_m = tid / 8, a_k = tid % 8;
  const int b_k = tid / (BN / width), b_n = tid % (BN / width) * width;
  const float* a_from = call.A + (row0 + a_m) * call.lda + k_begin + a_k;
  const float* b_from = call.B + (k_begin + b_k) * call.ldb + col0 + b_n;
  const int b_inside = min(width, max(0, N - col0 - b_n));
  int k_left = k_end - k_begin;  // of the slice that is copied next, and those after it
  int filled = 0;  // the stage that it goes to
  const auto start_copies = [&] {
    auto& As = ring.As[filled];
    auto& Bs = ring.Bs[filled];
#pragma unroll
    for (int m = 0; m < BM; m += a_rows)
#pragma unroll
      for (int k = 0; k < BK; k += 8)
        copy_async<1>(&As[a_k + k][a_m + m], a_from + m * call.lda + k,
                      row0 + a_m + m < M && a_k + k < k_left);
#pragma unroll
    for (int k = 0; k < BK; k += b_rows)
      copy_async<width>(&Bs[b_k + k][b_n], b_from + k * call.ldb, b_k + k < k_left ? b_inside : 0);
    a_from += BK;
    b_from += BK * call.ldb;
    k_left -= BK;
    filled = filled + 1 == stages ? 0 : filled + 1;
  };

  const LanePlace place = place_of<map, LM, LN>(lane);
  const int tr = warp / (BN / WN) * WM + place.row * 4, tc = warp % (BN / WN) * WN + place.col * 4;
  ThreadTile<TM, TN, LM, LN> tile;
  tile.clear();
  for (int slice = 0; slice < stages - 1; ++slice) {
    if (slice <= slices) start_copies();
    __pipeline_commit();  // an empty group too: the waits count groups
  }
  __pipeline_wait_prior(stages - 2);
  __syncthreads();
  tile.read_all(0, &ring.As[0][0][tr], &ring.Bs[0][0][tc]);

  // 2. shared -> registers -> outer products. Fragments are read one k ahead, across the edge to the
  //    next slice too, so that one has to be there already.
  int now = 0;
#pragma unroll 1
  for (int slice = 0; slice < slices; ++slice) {
    __pipeline_wait_prior(stages - 3);
    __syncthreads();
    if (slice + stages - 1 <= slices) start_copies();  // to where the slice before this one lay
    __pipeline_commit();
    const int next = now + 1 == stages ? 0 : now + 1;
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      const bool edge = k + 1 == BK;
      tile.multiply(k % 2, edge ? &ring.As[next][0][tr] : &ring.As[now][k + 1][tr],
                    edge ? &ring.Bs[next][0][tc] : &ring.Bs[now][k + 1][tc]);
    }
    now = next;
  }

  // 3. registers -> global.
  Output output = call.output;
  output.C += part * call.part_pitch;
  output.store(row0 + tr, col0 + tc, tile);
}

// C = alpha * (the sum of `splits` dense M x N matrices, in their order) + beta * C.
constexpr int sum_threads = 256;
__global__ void __launch_bounds__(sum_threads)
    sum_parts(int M, int N, int splits, const float* parts, float* C, std::int64_t ldc, float alpha,
              float beta) {
  wait_for_kernel_before();
  const std::int64_t elements = std::int64_t{M} * N;
  const std::int64_t e = std::int64_t(blockIdx.x) * sum_threads + threadIdx.x;
  if (e >= elements) return;
  float sum = 0;
#pragma unroll 8
  for (int part = 0; part < splits; ++part) sum += parts[part * elements + e];
  float* const out = C + e / N * ldc + e % N;
  *out = alpha * sum + (beta != 0 ? beta * *out : 0);
}

/// In how many parts K is cut so that the GPU is full: a part has at least four slices.
inline int splits_of(Shape s, Tile t) {
  const std::int64_t tiles = grid_of(s, t).blocks,
                     room = std::int64_t{t.blocks} * multiprocessors();
  if (tiles == 0) return 1;
  const int most = s.K / (4 * t.BK);
  return static_cast<int>(std::max<std::int64_t>(1, std::min<std::int64_t>(room / tiles, most)));
}

/// Sets up the kernel, and the sum of the parts of K where there are several.
template <LaneMap map, Tile T, int stages>
Run run_portable(const Problem& p) {
  const int M = p.shape.M, N = p.shape.N, K = p.alpha == 0 ? 0 : p.shape.K;
  const int splits = splits_of({M, N, K}, T);
  PortableCall call{.M = M,
                    .N = N,
                    .K = K,
                    .A = p.A,
                    .lda = p.lda,
                    .B = p.B,
                    .ldb = p.ldb,
                    .output = output_of(p),
                    .splits = splits};
  Grid grid = grid_of(p.shape, T);
  grid.blocks *= splits;
  grid.dynamic_shared_bytes = sizeof(Ring<transposed_pitch(T.BM), T.BN, T.BK, stages>);
  const auto start = [&](const PortableCall& told) {
    return rows_start_aligned(p.B, p.ldb)
               ? launch(portable<map, T.BM, T.BN, T.BK, stages, T.WM, T.WN, T.TM, T.TN, T.threads(),
                                 T.blocks, 4>,
                        grid, told)
               : launch(portable<map, T.BM, T.BN, T.BK, stages, T.WM, T.WN, T.TM, T.TN, T.threads(),
                                 T.blocks, 1>,
                        grid, told);
  };
  if (splits == 1) return start(call);

  const std::int64_t elements = std::int64_t{M} * N;
  const auto parts = std::make_shared<Workspace>(splits * elements);
  call.output = {parts->data(), N, M, N, 1, 0, N % 4 == 0};
  call.part_pitch = elements;
  const Grid grid_of_sum{
      .blocks = (elements + sum_threads - 1) / sum_threads, .threads = sum_threads, .early = true};
  const Run sum = launch(sum_parts, grid_of_sum, M, N, splits,
                         static_cast<const float*>(parts->data()), p.C, p.ldc, p.alpha, p.beta);
  const Run multiply = start(call);
  const Run all = in_order({multiply}, sum);
  return {[all, parts](Stream stream) { all.start(stream); }, multiply.footprint};
}

/// Bytes that it asks for.
inline Traffic portable_traffic(Shape s, Tile t) {
  const int splits = splits_of(s, t);
  const std::int64_t parts = splits > 1 ? 4 * splits * std::int64_t{s.M} * s.N : 0;
  return pipelined_traffic(s, t, splits) + Traffic{.global_loaded = parts, .global_stored = parts};
}

}  // namespace
}  // namespace gemm
