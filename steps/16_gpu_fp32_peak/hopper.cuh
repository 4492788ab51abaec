// The kernel for GPUs with a copy engine (compute capability 9.0): some warps feed the others.
#pragma once

#include <cooperative_groups.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "common/cuda/tensor_map.hpp"
#include "common/ptx.hpp"
#include "common/workspace.hpp"
#include "steps/16_gpu_fp32_peak/align.cuh"
#include "steps/16_gpu_fp32_peak/feed.cuh"
#include "steps/16_gpu_fp32_peak/few_columns.cuh"
#include "steps/16_gpu_fp32_peak/schedule.hpp"
#include "steps/16_gpu_fp32_peak/thread_tile.hpp"

namespace gemm {
namespace {

// Registers move within what the block was launched with (setmaxnreg): the producers keep what they
// need, and the multiplying warps take what is left. Who asks for more than that waits for ever.
constexpr int producer_registers = 72;
constexpr int consumer_registers(int consumers, int blocks) {
  const int threads = consumers + producer_threads, launched = 65536 / blocks / threads / 8 * 8;
  const int left = (threads * launched - producer_threads * producer_registers) / consumers;
  return left > 240 ? 240 : left / 8 * 8;
}

// How the sums of a tile that is cut along K come together. `through_memory`: blocks write theirs to
// global memory, and the one with the last slices adds them. `in_cluster`: the blocks of a tile are a
// cluster; each of them adds up a part of the tile, out of the shared memory of all.
enum class Join { through_memory, in_cluster };

// What the kernel is told besides its tensor maps.
struct HopperCall {
  int K;
  Output output;
  Schedule schedule;
  float* sums;  // a tile for each block: what it adds to a tile that another block finishes
  unsigned* done;  // for each block: its sums are there
};

// What the warps that multiply have beside the ring: results on their way to C, where its rows start
// anywhere. (A cluster passes its sums on in the ring itself.)
constexpr int floats_beside(Join join, bool aligned, Tile t) {
  return join == Join::in_cluster || aligned ? 1 : t.threads() / 32 * passed_floats;
}

// The tile of a cluster: each of its blocks adds up a part of the rows, out of the shared memory of
// all, in a fixed order. Sums lie there row by row, in the place of the ring: nobody needs that any
// more. They have been multiplied by alpha, so that they are new values: floats that lie four by four
// in registers are not where the loop over k would have its accumulators.
template <Tile T, int groups, bool aligned, int LM, int LN, typename Memory>
__device__ __forceinline__ void finish_in_cluster(Memory& memory,
                                                  const ThreadTile<T.TM, T.TN, LM, LN>& tile,
                                                  const Output& output, int group, int tr, int tc,
                                                  TilePlace at) {
  constexpr int consumers = groups * T.threads(), warps = consumers / 32;
  constexpr int pitch = T.BN + 4;  // pieces of 4 rows and 2 columns are in different banks
  using Sums = float[groups][T.BM][pitch];
  static_assert(sizeof(Sums) <= sizeof memory.As + sizeof memory.Bs);
  auto& sums = *reinterpret_cast<Sums*>(&memory);
  const auto cluster = cooperative_groups::this_cluster();
  ptx::named_barrier_sync<consumers>(multiplying);  // of the ring, nobody reads any more
#pragma unroll
  for (int i = 0; i < T.TM; ++i)
#pragma unroll
    for (int j = 0; j < T.TN; j += 4) {
      alignas(16) float scaled[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) scaled[e] = output.alpha * tile.acc[i][j + e];
      copy4(&sums[group][tr + i / 4 * 4 * LM + i % 4][tc + j / 4 * 4 * LN], scaled);
    }
  const int members = cluster.num_blocks(), rank = cluster.block_rank();
  const int first_row = T.BM * rank / members, end_row = T.BM * (rank + 1) / members;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  static_assert(T.BN == 4 * 32, "a warp reads a row");
  cluster.sync();

#pragma unroll 2
  for (int r = first_row + warp; r < end_row; r += warps) {
    alignas(16) float sum[4] = {};
#pragma unroll
    for (int member = 0; member < max_cluster; ++member) {
      if (member == members) break;
#pragma unroll
      for (int g = 0; g < groups; ++g) {
        const float* const theirs = cluster.map_shared_rank(&sums[g][r][0], member);
        alignas(16) float part[4];
        if constexpr (aligned) {
          copy4(part, theirs + 4 * lane);
        } else {
#pragma unroll
          for (int e = 0; e < 4; ++e) part[e] = theirs[lane + 32 * e];
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[e] += part[e];
      }
    }
    const int row = at.row * T.BM + r, col = at.col * T.BN;
    if constexpr (aligned) {
      output.finish4(row, col + 4 * lane, sum);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) output.finish(row, col + lane + 32 * e, sum[e]);
    }
  }
  cluster.sync();  // nobody leaves while others read its memory
}

// C = alpha * A * B + beta * C, row-major, K > 0; rows of A and B start at multiples of 16 bytes, and
// those of C if `aligned`. A persistent grid: the schedule says who multiplies what.
template <Join join, bool aligned, LaneMap map, int BM, int BN, int BK, int stages, int WM, int WN,
          int TM, int TN, int consumers, int blocks, int unrolled>
__global__ void __launch_bounds__(consumers + producer_threads, blocks)
    hopper(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
           const __grid_constant__ HopperCall call) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr int LM = WM / TM, LN = WN / TN;  // lanes of a warp
  constexpr int warps = consumers / 32;
  // Threads that cover the block tile, and how many such groups there are. Each group multiplies its
  // own rows of every slice.
  constexpr int group_threads = BM / TM * (BN / TN), groups = consumers / group_threads;
  constexpr int depth = BK / groups;
  static_assert(BM % WM == 0 && BN % WN == 0 && BM / WM * (BN / WN) * 32 == group_threads,
                "warp tiles cover the block tile exactly");
  static_assert(groups == 1 || join == Join::in_cluster, "one thread finishes an element");
  static_assert(depth % unrolled == 0 && unrolled % 2 == 0, "two fragments take turns");
  constexpr Tile tile_of_block{
      .BM = BM, .BN = BN, .BK = BK, .WM = WM, .WN = WN, .TM = TM, .TN = TN, .blocks = blocks};
  auto& memory =
      *reinterpret_cast<FedRing<BM, BN, BK, stages, floats_beside(join, aligned, tile_of_block)>*>(
          dynamic_shared);
  constexpr int lda = sizeof memory.As[0][0] / sizeof(float);

  const Schedule& schedule = call.schedule;
  const int tid = threadIdx.x, lane = tid % 32;
  const int warp = __shfl_sync(~0u, tid / 32, 0);  // the same for all lanes, and known to be
  if (tid == 0) {
    ptx::prefetch_map(&map_a);
    ptx::prefetch_map(&map_b);
    for (int s = 0; s < stages; ++s) ptx::barrier_init(&memory.full[s], full_arrivals);
    ptx::barrier_init(&memory.arrived, 1);
    ptx::fence_barrier_init();
  }
  __syncthreads();
  wait_for_kernel_before();  // what comes until here overlaps with the end of it
  let_next_kernel_start();

  if (warp >= warps) {
    // 1. global -> shared, as far ahead as there are free stages.
    ptx::give_back_registers<producer_registers>();
    feed<BM, BN, BK, stages, consumers>(memory, schedule, map_a, map_b, tid - consumers);
    return;
  }

  // 2. shared -> registers -> outer products.
  ptx::take_registers<consumer_registers(consumers, blocks)>();
  const LanePlace place = place_of<map, LM, LN>(lane);
  const int group = warp / (group_threads / 32), in_group = warp % (group_threads / 32);
  const int tr = in_group / (BN / WN) * WM + place.row * 4;
  const int tc = in_group % (BN / WN) * WN + place.col * 4;
  const float* const a0 = &memory.As[0][group * depth][tr];
  const float* const b0 = &memory.Bs[0][group * depth][tc];
  const float *As = a0, *Bs = b0;
  constexpr int steps_of_slice =
      depth / unrolled;  // the loop over k has `unrolled` of them in its body

  Pieces pieces(schedule, blockIdx.x);
  Piece piece;
  int stage = 0, phase = 0, row = 0;
  ThreadTile<TM, TN, LM, LN> tile;
  ptx::barrier_wait(&memory.full[0], 0);
  tile.read_all(0, As, Bs);
  while (pieces.next(piece)) {
    tile.clear();
#pragma unroll 1
    for (int s = piece.slice0; s < piece.slice1; ++s) {
      // The next slice has arrived before this one is used, so that fragments are read ahead across
      // the edge between them, and the loop over k has no barrier in it.
      const int used = stage;
      if (++stage == stages) stage = 0, phase ^= 1;
      ptx::barrier_wait(&memory.full[stage], phase);
      // As many steps as hold something: the last slice may end early.
      const int rest = call.K - s * BK - group * depth;
      int left = max(1, min(steps_of_slice, ceil_div(rest, unrolled)));
#pragma unroll 1
      do {
        --left;
#pragma unroll
        for (int k = 0; k < unrolled - 1; ++k)
          tile.multiply(k % 2, As + (k + 1) * lda, Bs + (k + 1) * BN);
        row = left > 0 ? row + unrolled : stage * BK;
        As = a0 + row * lda;
        Bs = b0 + row * BN;
        tile.multiply(1, As, Bs);
      } while (left > 0);
      ptx::named_barrier_arrive<consumers + producer_threads>(stage_empty + used);
    }

    const TilePlace at = place_of_tile(schedule, piece.tile);
    const int r = at.row * BM + tr, c = at.col * BN + tc;

    if constexpr (join == Join::in_cluster) {
      finish_in_cluster<tile_of_block, groups, aligned, LM, LN>(memory, tile, call.output, group,
                                                                tr, tc, at);
      return;
    }

    // 3. A tile that was cut: the block with its last slices adds what the others have, in the
    //    order of k, and finishes it.
    const bool finishes = piece.slice1 == schedule.slices;
    if (!finishes || piece.slice0 > 0) {
      // Float by float: four at once would need accumulators in four registers that follow each
      // other, and the FMAs of the loop above would then meet in one bank of the register file.
      constexpr int floats = BM * BN;
      if (!finishes) {
        float* const mine = call.sums + std::size_t(blockIdx.x) * floats + tid;
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
          for (int j = 0; j < TN; ++j) mine[(i * TN + j) * consumers] = tile.acc[i][j];
        __threadfence();
        ptx::named_barrier_sync<consumers>(multiplying);
        if (tid == 0) ptx::store_release(&call.done[blockIdx.x], 1);
        continue;
      }
      const int last = static_cast<int>(blockIdx.x) - 1;
      for (int other = first_block_of(schedule, piece.tile, last); other <= last; ++other) {
        if (schedule.share(other) == schedule.share(other + 1)) continue;
        if (tid == 0) {
          while (ptx::load_acquire(&call.done[other]) == 0) {
          }
          call.done[other] = 0;  // for the next launch
        }
        ptx::named_barrier_sync<consumers>(multiplying);
        const float* const theirs = call.sums + std::size_t(other) * floats + tid;
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
          for (int j = 0; j < TN; ++j) tile.acc[i][j] += theirs[(i * TN + j) * consumers];
      }
    }

    // 4. registers -> global.
    if constexpr (aligned)
      call.output.store(r, c, tile);
    else
      call.output.store_rows(r - place.row * 4, c - place.col * 4, place, tile,
                             memory.beside + warp * passed_floats);
  }
#endif
}

/// Why these kernels cannot run here; empty where they can. Their instructions are those of one
/// architecture: neither a later GPU has them, nor a build for another one.
inline std::string no_hopper() {
  cudaFuncAttributes compiled{};
  const auto kernel = hopper<Join::through_memory, true, LaneMap::exclusive_or, 128, 256, 32, 4, 64,
                             64, 16, 8, 256, 1, 8>;
  const bool there = cudaFuncGetAttributes(&compiled, kernel) == cudaSuccess &&
                     compiled.binaryVersion == 90 && compiled.ptxVersion == 90;
  cudaGetLastError();  // that there is no such code is no failure
  return there ? "" : "needs compute capability 9.0, and code for it";
}

/// A kernel of this file: everything that is decided when compiling. `unrolled` rows of a slice make
/// the body of the loop over k; `groups` of threads share the rows of every slice.
struct Variant {
  Tile tile;
  int stages;
  Join join = Join::through_memory;
  LaneMap map = LaneMap::exclusive_or;
  int unrolled = 8, groups = 1;
  bool cut = true;  ///< tiles that would leave blocks idle are cut along K
};

/// Sets up a kernel for K > 0 and alpha != 0; `aligned`: rows of C start at multiples of 16 bytes.
template <Variant V, bool aligned>
Run run_hopper(const Problem& p) {
  constexpr Tile T = V.tile;
  constexpr int consumers = V.groups * T.threads();
  const auto kernel = hopper<V.join, aligned, V.map, T.BM, T.BN, T.BK, V.stages, T.WM, T.WN, T.TM,
                             T.TN, consumers, T.blocks, V.unrolled>;
  const int apart = columns_apart(p.shape.N, T.BN);
  const int M = p.shape.M, N = p.shape.N - apart, K = p.shape.K;
  const int room = T.blocks * multiprocessors();
  Grid grid{.blocks = room,
            .threads = consumers + producer_threads,
            .dynamic_shared_bytes =
                sizeof(FedRing<T.BM, T.BN, T.BK, V.stages, floats_beside(V.join, aligned, T)>)};
  Schedule schedule = schedule_of({M, N, K}, T, room, V.cut);
  if (V.join == Join::in_cluster) {
    if (std::int64_t{1} * schedule.tiles() * schedule.slices > INT32_MAX)
      throw Refusal(Exit::unsupported, "more than 2^31 - 1 slices of tiles: choose a smaller size");
    grid.cluster = blocks_of_cluster({M, N, K}, T, room);
    schedule = schedule_of_clusters({M, N, K}, T, grid.cluster);
    grid.blocks = schedule.blocks;
  } else if (schedule.whole == schedule.tiles()) {
    grid.blocks = std::min<std::int64_t>(grid.blocks, schedule.tiles());
  }

  HopperCall call{
      .K = K, .output = output_of(p), .schedule = schedule, .sums = nullptr, .done = nullptr};
  call.output.N = N;
  std::shared_ptr<Workspace> sums, done;
  if (V.join == Join::through_memory && schedule.whole < schedule.tiles()) {
    sums = std::make_shared<Workspace>(std::size_t(schedule.blocks) * T.BM * T.BN);
    done = std::make_shared<Workspace>(schedule.blocks);
    call.sums = sums->data();
    call.done = reinterpret_cast<unsigned*>(done->data());
    check(cudaMemset(call.done, 0, sizeof(unsigned) * schedule.blocks), "clearing flags");
    // A stream that does not wait for the default stream would not wait for that either.
    check(cudaStreamSynchronize(nullptr), "clearing flags");
  }
  // The columns apart run beside clusters, which leave some multiprocessors without a block; else
  // before, where they can copy A in passing.
  constexpr bool beside = V.join == Join::in_cluster;
  Aligned A = aligned_rows({p.A, p.lda, M, K});
  const Aligned B = aligned_rows({p.B, p.ldb, K, N});
  std::vector<Run> before;
  if (apart > 0 && !beside) {
    before.push_back(run_few_columns(p, apart, false, A.copy.to, A.copy.pitch));
    A.copy.blocks = 0;
  }
  if (A.copy.blocks + B.copy.blocks > 0) before.push_back(align_rows(A, B, !before.empty()));
  grid.early = !before.empty();
  const Run multiply = launch(kernel, grid, tensor_map(A.rows.from, M, K, A.rows.ld, T.BM, T.BK),
                              tensor_map(B.rows.from, K, N, B.rows.ld, T.BK, T.BN), call);
  Run all = in_order(before, multiply);
  if (apart > 0 && beside) all = in_order({all}, run_few_columns(p, apart, true));
  const auto owned = std::make_tuple(A.memory, B.memory, sums, done);
  return {[all, owned](Stream stream) { all.start(stream); }, multiply.footprint};
}

template <Variant V>
Run run_hopper(const Problem& p) {
  return rows_start_aligned(p.C, p.ldc) ? run_hopper<V, true>(p) : run_hopper<V, false>(p);
}

/// Bytes that a variant asks for, in the kernel and before it. A tile that is cut adds the sums that
/// pass through memory, which are left out: at most one tile for each block.
template <Variant V>
Traffic hopper_traffic(Shape s) {
  constexpr Tile T = V.tile;
  const int apart = columns_apart(s.N, T.BN);
  const Shape inside{s.M, s.N - apart, s.K};
  const std::int64_t tiles = grid_of(inside, T).blocks, slices = tiles * (ceil_div(s.K, T.BK) + 1);
  const std::int64_t transposed = 4 * slices * T.BM * T.BK;
  Traffic copy_of_a = align_traffic(s.M, s.K, s.K);
  if (apart > 0 && V.join != Join::in_cluster) copy_of_a.global_loaded = 0;  // it is read anyway
  return pipelined_traffic(inside, T) + copy_of_a + align_traffic(s.K, inside.N, s.N) +
         few_columns_traffic(s, apart) +
         Traffic{.shared_loaded = transposed, .shared_stored = transposed};
}

}  // namespace
}  // namespace gemm
