// The kernel for GPUs with a copy engine (compute capability 9.0): one warp feeds the others.
#pragma once

#include <cooperative_groups.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "common/async_copy.hpp"
#include "common/cuda/tensor_map.hpp"
#include "common/ptx.hpp"
#include "common/workspace.hpp"
#include "steps/16_gpu_fp32_peak/pack.cuh"
#include "steps/16_gpu_fp32_peak/ring.hpp"
#include "steps/16_gpu_fp32_peak/schedule.hpp"
#include "steps/16_gpu_fp32_peak/thread_tile.hpp"

namespace gemm {
namespace {

// How slices of A come to lie k by k. `packed`: A has been transposed before, and the copy engine
// brings boxes of it. `on_the_way`: four warps copy A in place, 4 bytes at a time, to where they
// belong.
enum class FeedA { packed, on_the_way };

// One producer warpgroup; the other warps multiply. Of the 65536 registers of a multiprocessor the
// producers keep what they need, and the multiplying warps take what is left (setmaxnreg).
constexpr int producer_threads = 128;
constexpr int producer_registers(FeedA feed) { return feed == FeedA::packed ? 24 : 40; }
constexpr int consumer_registers(FeedA feed, int consumers, int blocks) {
  const int left = (65536 / blocks - producer_threads * producer_registers(feed)) / consumers;
  return left > 240 ? 240 : left / 8 * 8;
}

// How the sums of a tile that is cut along K come together. `through_memory`: blocks write theirs to
// global memory, and the one with the last slices adds them. `in_cluster`: the blocks of a tile are a
// cluster; each of them adds up a part of the tile, out of the shared memory of all.
enum class Join { through_memory, in_cluster };

// What the kernel is told besides its operands' place.
struct HopperCall {
  int M, K;
  const float* A;
  std::int64_t lda;
  Output output;
  Schedule schedule;
  float* sums;  // a tile for each block: what it adds to a tile that another block finishes
  unsigned* done;  // for each block: its sums are there
};

// The ring, and for each stage: it is full, it is empty again.
template <FeedA feed, int BM, int BN, int BK, int stages>
struct FedRing : Ring<feed == FeedA::packed ? BM : transposed_pitch(BM), BN, BK, stages> {
  std::uint64_t full[stages], empty[stages];
};

// C = alpha * A * B + beta * C, row-major, K > 0; A packed (K x M) or in place, B any N whose rows
// start at multiples of 16 bytes. A persistent grid: the schedule says who multiplies what.
template <FeedA feed, Join join, LaneMap map, int BM, int BN, int BK, int stages, int WM, int WN,
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
  auto& ring = *reinterpret_cast<FedRing<feed, BM, BN, BK, stages>*>(dynamic_shared);
  constexpr int lda = sizeof ring.As[0][0] / sizeof(float);

  const Schedule& schedule = call.schedule;
  const int tid = threadIdx.x, lane = tid % 32;
  const int warp = __shfl_sync(~0u, tid / 32, 0);  // the same for all lanes, and known to be
  if (tid == 0) {
    constexpr int arrivals = feed == FeedA::packed ? 1 : 1 + producer_threads;
    for (int s = 0; s < stages; ++s) {
      ptx::barrier_init(&ring.full[s], arrivals);
      ptx::barrier_init(&ring.empty[s], warps);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  wait_for_kernel_before();  // what comes until here overlaps with the end of it

  Pieces pieces(schedule, blockIdx.x);
  Piece piece;
  int stage = 0, phase = 0;
  const auto advance = [&] {
    if (++stage == stages) stage = 0, phase ^= 1;
  };

  if (warp >= warps) {
    // 1. global -> shared, as far ahead as there are free stages.
    ptx::give_back_registers<producer_registers(feed)>();
    if (feed == FeedA::packed && (warp > warps || lane != 0)) return;
    const auto feed_slice = [&](int row0, int col0, int k0) {
      ptx::barrier_wait(&ring.empty[stage], phase ^ 1);  // the first round finds all stages free
      std::uint64_t* const full = &ring.full[stage];
      constexpr int b_bytes = BK * BN * 4, a_bytes = feed == FeedA::packed ? BK * BM * 4 : 0;
      if (feed == FeedA::packed || tid == consumers) {
        ptx::barrier_arrive_expecting(full, a_bytes + b_bytes);
        ptx::copy_box(&ring.Bs[stage][0][0], &map_b, col0, k0, full);
      }
      if constexpr (feed == FeedA::packed) {
        ptx::copy_box(&ring.As[stage][0][0], &map_a, row0, k0, full);
      } else {
        // A warp copies 8 k of 4 rows: whole sectors of A, and 32 banks of As.
        constexpr int rows = producer_threads / 8;
        const int t = tid - consumers, k = t % 8, m = t / 8;
        const auto copy_all = [&](auto inside) {
          const float* from = call.A + (row0 + m) * call.lda + k0 + k;
          float* to = &ring.As[stage][k][m];
#pragma unroll 1
          for (int mm = 0; mm < BM; mm += rows, from += rows * call.lda, to += rows)
#pragma unroll
            for (int kk = 0; kk < BK; kk += 8) {
              const bool valid = inside || (row0 + m + mm < call.M && k0 + k + kk < call.K);
              copy_async<1>(to + kk * lda, from + kk, valid);
            }
        };
        if (row0 + BM <= call.M && k0 + BK <= call.K)
          copy_all(std::true_type{});
        else
          copy_all(std::false_type{});
        ptx::barrier_arrive_after_copies(full);
      }
      advance();
    };
    while (pieces.next(piece)) {
      const TilePlace at = place_of_tile(schedule, piece.tile);
      for (int s = piece.slice0; s < piece.slice1; ++s)
        feed_slice(at.row * BM, at.col * BN, s * BK);
    }
    feed_slice(0, 0, schedule.slices * BK);  // zeros: the last fragments read ahead are of this
    return;
  }

  // 2. shared -> registers -> outer products.
  ptx::take_registers<consumer_registers(feed, consumers, blocks)>();
  const LanePlace place = place_of<map, LM, LN>(lane);
  const int group = warp / (group_threads / 32), in_group = warp % (group_threads / 32);
  const int tr = in_group / (BN / WN) * WM + place.row * 4;
  const int tc = in_group % (BN / WN) * WN + place.col * 4;
  const float* const a0 = &ring.As[0][group * depth][tr];
  const float* const b0 = &ring.Bs[0][group * depth][tc];
  const float *As = a0, *Bs = b0;
  // The loop over k runs around the whole ring, `unrolled` rows a step.
  constexpr int steps_of_slice = depth / unrolled, steps = stages * steps_of_slice;
  int step = 0;

  ThreadTile<TM, TN, LM, LN> tile;
  ptx::barrier_wait(&ring.full[0], 0);
  tile.read_all(0, As, Bs);
  while (pieces.next(piece)) {
    tile.clear();
#pragma unroll 1
    for (int s = piece.slice0; s < piece.slice1; ++s) {
      // The next slice has arrived before this one is used, so that fragments are read ahead across
      // the edge between them, and the loop over k has no barrier in it.
      const int used = stage;
      advance();
      ptx::barrier_wait(&ring.full[stage], phase);
#pragma unroll 1
      for (int u = 0; u < steps_of_slice; ++u) {
#pragma unroll
        for (int k = 0; k < unrolled - 1; ++k)
          tile.multiply(k % 2, As + (k + 1) * lda, Bs + (k + 1) * BN);
        step = step + 1 == steps ? 0 : step + 1;
        const int row =
            (step + step / steps_of_slice * (BK / unrolled - steps_of_slice)) * unrolled;
        As = a0 + row * lda;
        Bs = b0 + row * BN;
        tile.multiply(1, As, Bs);
      }
      __syncwarp();
      ptx::barrier_arrive(&ring.empty[used], lane == 0);
    }

    const TilePlace at = place_of_tile(schedule, piece.tile);
    const int r = at.row * BM + tr, c = at.col * BN + tc;

    if constexpr (join == Join::in_cluster) {
      // 3. Sums to shared memory, which nobody else needs any more; then everyone's, in a fixed
      //    order, for a part of the rows of each thread tile.
      constexpr int floats = BM * BN;
      static_assert(groups * floats * sizeof(float) <= sizeof ring.As + sizeof ring.Bs);
      float* const first = &ring.As[0][0][0] + tid % group_threads;
      const auto cluster = cooperative_groups::this_cluster();
      ptx::sync_some<1, consumers>();
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j)
          first[group * floats + (i * TN + j) * group_threads] = tile.acc[i][j];
      cluster.sync();
      const int sharing = cluster.num_blocks() * groups;
      const int mine = cluster.block_rank() * groups + group;
      for (int i = TM * mine / sharing; i < TM * (mine + 1) / sharing; ++i) {
        float sums[TN] = {};
        for (int other = 0; other < sharing; ++other) {
          const float* const theirs =
              cluster.map_shared_rank(first, other / groups) + other % groups * floats;
#pragma unroll
          for (int j = 0; j < TN; ++j) sums[j] += theirs[(i * TN + j) * group_threads];
        }
        call.output.template store_row<TM, TN, LM, LN>(r, c, i, sums);
      }
      cluster.sync();  // nobody leaves while others read its memory
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
        ptx::sync_some<1, consumers>();
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
        ptx::sync_some<1, consumers>();
        const float* const theirs = call.sums + std::size_t(other) * floats + tid;
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
          for (int j = 0; j < TN; ++j) tile.acc[i][j] += theirs[(i * TN + j) * consumers];
      }
    }

    // 4. registers -> global.
    call.output.store(r, c, tile);
  }
#endif
}

/// Why these kernels cannot run here; empty where they can. Their instructions are those of one
/// architecture: neither a later GPU has them, nor a build for another one.
inline std::string no_hopper() {
  cudaFuncAttributes compiled{};
  const auto kernel = hopper<FeedA::packed, Join::through_memory, LaneMap::exclusive_or, 256, 128,
                             32, 4, 64, 64, 16, 8, 256, 1, 8>;
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
  FeedA feed = FeedA::packed;
  Join join = Join::through_memory;
  LaneMap map = LaneMap::exclusive_or;
  int unrolled = 8, groups = 1;
  bool cut = true;  ///< tiles that would leave blocks idle are cut along K
};

/// Sets up a kernel for K > 0 and alpha != 0.
template <Variant V>
Run run_hopper(const Problem& p) {
  constexpr Tile T = V.tile;
  constexpr int consumers = V.groups * T.threads();
  const auto kernel = hopper<V.feed, V.join, V.map, T.BM, T.BN, T.BK, V.stages, T.WM, T.WN, T.TM,
                             T.TN, consumers, T.blocks, V.unrolled>;
  const int apart = columns_apart(p.shape.N, T.BN);
  const int M = p.shape.M, N = p.shape.N - apart, K = p.shape.K;
  const int room = T.blocks * multiprocessors();
  Grid grid{.blocks = room,
            .threads = consumers + producer_threads,
            .dynamic_shared_bytes = sizeof(FedRing<V.feed, T.BM, T.BN, T.BK, V.stages>)};
  Schedule schedule = schedule_of({M, N, K}, T, room, V.cut);
  if (V.join == Join::in_cluster) {
    grid.cluster = blocks_of_cluster({M, N, K}, T, room);
    schedule = schedule_of_clusters({M, N, K}, T, grid.cluster);
    grid.blocks = schedule.blocks;
  } else if (schedule.whole == schedule.tiles()) {
    grid.blocks = std::min<std::int64_t>(grid.blocks, schedule.tiles());
  }

  const Packed packed = pack(p, V.feed == FeedA::packed, apart);
  HopperCall call{.M = M,
                  .K = K,
                  .A = p.A,
                  .lda = p.lda,
                  .output = output_of(p),
                  .schedule = schedule,
                  .sums = nullptr,
                  .done = nullptr};
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
  CUtensorMap map_a{};
  if (V.feed == FeedA::packed) map_a = tensor_map(packed.At, K, M, packed.a_pitch, T.BK, T.BM);
  const CUtensorMap map_b = tensor_map(packed.B, K, N, packed.ldb, T.BK, T.BN);

  grid.early = !packed.before.empty();
  const Run all = in_order(packed.before, launch(kernel, grid, map_a, map_b, call));
  const auto owned = std::make_tuple(packed.memory_a, packed.memory_b, sums, done);
  return {[all, owned](Stream stream) { all.start(stream); }, all.footprint};
}

/// Bytes that a variant asks for, in the kernel and before it. A tile that is cut adds the sums that
/// pass through memory, which are left out: at most one tile for each block.
template <Variant V>
Traffic hopper_traffic(Shape s) {
  const int apart = columns_apart(s.N, V.tile.BN);
  return pipelined_traffic({s.M, s.N - apart, s.K}, V.tile) +
         pack_traffic(s, V.feed == FeedA::packed, apart);
}

}  // namespace
}  // namespace gemm
