// Step 15: an asynchronous pipeline.                                Before: 14_gpu_warp_tiling.cu
// Idea    Copies go from global to shared memory by themselves (cp.async): a thread starts them and
//         waits for them S - 2 slices later. S stages: one is used, the next one is there, and the
//         others are under way.
// Why     In step 14 the next slice rested in registers during the compute, up to 24 of them, and
//         every float took a load and a store. Now it takes one instruction and no register.
// Bytes   As in step 14: global 43 FLOP/byte at 256 x 128, shared 2.7 at 16 x 8.
// Limit   Every thread still takes part in every copy: it computes an address for each four bytes
//         of A. And all threads of a block still meet at every slice.
// More    docs/15_gpu_async_pipeline.md      Run   build/steps/15_gpu_async_pipeline --m 4096

#include "common/async_copy.hpp"
#include "common/float4.hpp"
#include "common/lane_map.hpp"
#include "common/launch.hpp"
#include "common/model/traffic.hpp"

namespace gemm {
namespace {

// What one slice takes of shared memory.
template <int BM, int BN, int BK>
struct Stage {
  // One column of A after another. Four floats of padding move every k on by 4 banks: a warp writes
  // 8 k x 4 m at a time, to 32 banks.
  alignas(16) float As[BK][BM + 4];
  alignas(16) float Bs[BK][BN];
};

// C[M,N] = A[M,K] * B[K,N], row-major, any M, N, K >= 0. One block per BM x BN tile of C.
template <int S, LaneMap map, int BM, int BN, int BK, int WM, int WN, int TM, int TN, int threads,
          int blocks>
__global__ void __launch_bounds__(threads, blocks)
    async_pipeline(int M, int N, int K, const float* A, const float* B, float* C) {
  static_assert(BM % WM == 0 && BN % WN == 0 && threads == 32 * (BM / WM) * (BN / WN),
                "warp tiles cover the block tile exactly");
  static_assert(TM % 4 == 0 && TN % 4 == 0, "every shared load moves four floats");
  static_assert(S >= 3, "one slice is used, the next one is there, the others are on their way");
  constexpr int row_step = WM / (TM / 4), col_step = WN / (TN / 4);
  // What all threads copy at once: a_rows rows of 8 floats of A, b_rows rows of BN floats of B.
  constexpr int a_rows = threads / 8, b_rows = threads / (BN / 4);
  static_assert(BM % a_rows == 0 && BK % 8 == 0 && BK % b_rows == 0 && threads % (BN / 4) == 0,
                "every thread copies the same share of a slice");
  auto* const stages = reinterpret_cast<Stage<BM, BN, BK>*>(dynamic_shared);
  alignas(16) float acc[TM][TN] = {};

  const int tid = threadIdx.x;
  const int tiles_n = ceil_div(N, BN);
  const int row0 = blockIdx.x / tiles_n * BM, col0 = blockIdx.x % tiles_n * BN;
  // A warp owns WM x WN elements. In them a thread owns TM/4 x TN/4 pieces of 4 x 4, row_step and
  // col_step apart; the lane map says which.
  const LanePlace lane = place_of<map, WM / TM, WN / TN>(tid % 32);
  const int tr = tid / 32 / (BN / WN) * WM + lane.row * 4;
  const int tc = tid / 32 % (BN / WN) * WN + lane.col * 4;

  // A thread's first pieces of a slice: a float of A, four of B.
  const int a_r = tid / 8, a_k = tid % 8;
  const int b_k = tid / (BN / 4), b_c = tid % (BN / 4) * 4;
  const float* const a_from = A + std::size_t(row0 + a_r) * K + a_k;
  const float* const b_from = B + std::size_t(b_k) * N + col0 + b_c;
  const bool b_aligned = rows_aligned(B, N);
  // global -> shared, started and not waited for. Past an edge come zeros, which add nothing, so
  // that the FMA loop needs no bounds check; and the slice after the last is all zeros.
  const auto copy = [&](int slice) {
    auto& stage = stages[slice % S];
    const int k0 = slice * BK;
    // A goes float by float, for it is transposed on the way.
#pragma unroll
    for (int k = 0; k < BK; k += 8)
#pragma unroll
      for (int r = 0; r < BM; r += a_rows)
        copy_async<1>(&stage.As[a_k + k][a_r + r], a_from + std::size_t(r) * K + k0 + k,
                      row0 + a_r + r < M && k0 + a_k + k < K);
#pragma unroll
    for (int k = 0; k < BK; k += b_rows) {
      float* const to = &stage.Bs[b_k + k][b_c];
      const float* const from = b_from + std::size_t(k0 + k) * N;
      const int left = k0 + b_k + k < K ? N - col0 - b_c : 0;
      if (b_aligned)
        copy_async<4>(to, from, left > 0 ? 4 : 0);
      else
#pragma unroll
        for (int j = 0; j < 4; ++j) copy_async<1>(to + j, from + j, j < left);
    }
  };
  // shared -> registers: the values of one k, into one of two sets of fragments.
  alignas(16) float a[2][TM], b[2][TN];
  const auto load = [&](int slice, int k) {
    const auto& stage = stages[slice % S];
#pragma unroll
    for (int i = 0; i < TM; i += 4) copy4(&a[k % 2][i], &stage.As[k][tr + i / 4 * row_step]);
#pragma unroll
    for (int j = 0; j < TN; j += 4) copy4(&b[k % 2][j], &stage.Bs[k][tc + j / 4 * col_step]);
  };

  // 1. Start S - 1 slices. Each is one group of copies, and one that does not exist an empty group:
  //    so counting groups is counting slices.
  const int slices = ceil_div(K, BK);
  for (int slice = 0; slice < S - 1; ++slice) {
    if (slice <= slices) copy(slice);
    __pipeline_commit();
  }
  __pipeline_wait_prior(S - 2);
  __syncthreads();
  load(0, 0);

  for (int slice = 0; slice < slices; ++slice) {
    // 2. Wait for all groups but the newest S - 3: what this thread copied of the next slice is
    //    there, for fragments are loaded one k ahead, and across the edge of the slice.
    __pipeline_wait_prior(S - 3);
    __syncthreads();  // what the others copied is there too; and the slice before has been used

    // 3. Start the slice that takes the place of the one before.
    if (slice + S - 1 <= slices) copy(slice + S - 1);
    __pipeline_commit();

    // 4. The outer product of each k, with the values of the next one on their way to the registers
    //    that a slice no longer takes.
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      if (k + 1 < BK)
        load(slice, k + 1);
      else
        load(slice + 1, 0);
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] += a[k % 2][i] * b[k % 2][j];
    }
  }

  // 5. registers -> global, float by float: four at once would have to lie in four registers that follow
  //    each other, and the FMAs of the loop above would then meet in one bank of the register file.
#pragma unroll
  for (int i = 0; i < TM; ++i)
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      const int r = row0 + tr + i / 4 * row_step + i % 4;
      const int c = col0 + tc + j / 4 * col_step + j % 4;
      if (r < M && c < N) C[std::size_t(r) * N + c] = acc[i][j];
    }
}

template <int S, LaneMap map, Tile T>
Run prepare(const Problem& p) {
  const auto [M, N, K] = p.shape;
  Grid grid = grid_of(p.shape, T);
  grid.dynamic_shared_bytes = S * sizeof(Stage<T.BM, T.BN, T.BK>);
  return launch(
      async_pipeline<S, map, T.BM, T.BN, T.BK, T.WM, T.WN, T.TM, T.TN, T.threads(), T.blocks>, grid,
      M, N, K, p.A, p.B, p.C);
}

template <int S, LaneMap map, Tile T>
Kernel row(const std::string& lanes) {
  return {std::to_string(S) + " stages, " + lanes + " " + to_string(T), prepare<S, map, T>,
          [](Shape s) { return pipelined_traffic(s, T); }, T};
}

constexpr Tile tall{.BM = 256, .BN = 128, .BK = 16, .WM = 64, .WN = 64, .TM = 16, .TN = 8};
constexpr Tile pair{
    .BM = 128, .BN = 128, .BK = 16, .WM = 64, .WN = 64, .TM = 16, .TN = 8, .blocks = 2};
constexpr Tile flat{
    .BM = 128, .BN = 128, .BK = 8, .WM = 64, .WN = 64, .TM = 16, .TN = 8, .blocks = 2};
constexpr auto z = LaneMap::z_order, x = LaneMap::exclusive_or;

const Register step{{.name = "15_gpu_async_pipeline",
                     .title = "GPU, asynchronous pipeline",
                     .device = this_device,
                     .kernels = {row<4, z, tall>("z-order"), row<4, z, pair>("z-order"),
                                 row<3, z, flat>("z-order"), row<4, z, flat>("z-order"),
                                 row<5, z, flat>("z-order"), row<4, x, flat>("exclusive or")}}};

}  // namespace
}  // namespace gemm
