// Step 14: warp tiling.                                         Before: 13_gpu_double_buffering.cu
// Idea    A level between block and thread: the block tile is cut into WM x WN warp tiles, one for
//         each warp, and a lane map says which lane of the warp owns which thread tile of it.
// Why     A warp loads together, and which of its lanes ask for the same 16 bytes decides how many
//         wavefronts that takes. In step 13 the numbering of the block's threads decided it, and a
//         load of B took four; a map can put lanes where shared memory serves them together.
// Bytes   As in step 13: global 2 BM BN / (4 (BM + BN)) = 43 FLOP/byte at 256 x 128, shared
//         2 TM TN / (4 (TM + TN)) = 2.7 at 16 x 8. The same bytes, in fewer wavefronts.
// Limit   The next slice still passes through registers on its way to shared memory.
// More    docs/14_gpu_warp_tiling.md            Run   build/steps/14_gpu_warp_tiling --m 4096

#include "common/float4.hpp"
#include "common/lane_map.hpp"
#include "common/launch.hpp"
#include "common/model/traffic.hpp"
#include "common/shared_layout.hpp"

namespace gemm {
namespace {

// C[M,N] = A[M,K] * B[K,N], row-major, any M, N, K >= 0. One block per BM x BN tile of C.
template <LaneMap map, int BM, int BN, int BK, int WM, int WN, int TM, int TN, int threads,
          int blocks>
__global__ void __launch_bounds__(threads, blocks)
    warp_tiled(int M, int N, int K, const float* A, const float* B, float* C) {
  static_assert(BM % WM == 0 && BN % WN == 0 && threads == 32 * (BM / WM) * (BN / WN),
                "warp tiles cover the block tile exactly");
  static_assert(TM % 4 == 0 && TN % 4 == 0 && BK % 4 == 0, "every access moves four floats");
  constexpr int row_step = WM / (TM / 4), col_step = WN / (TN / 4);
  constexpr int a_loads = BM * BK / 4 / threads, b_loads = BK * BN / 4 / threads;
  static_assert(4 * a_loads * threads == BM * BK && 4 * b_loads * threads == BK * BN,
                "every thread carries the same share of a slice");
  using AsLayout = Swizzled<BM, BK>;
  alignas(16) __shared__ float As[2][AsLayout::floats];  // (BK, BM): one column of A after another
  alignas(16) __shared__ float Bs[2][BK][BN];
  alignas(16) float acc[TM][TN] = {};

  const int tid = threadIdx.x;
  const int tiles_n = ceil_div(N, BN);
  const int row0 = blockIdx.x / tiles_n * BM, col0 = blockIdx.x % tiles_n * BN;
  // A warp owns WM x WN elements. In them a thread owns TM/4 x TN/4 pieces of 4 x 4, row_step and
  // col_step apart; the lane map says which.
  const LanePlace lane = place_of<map, WM / TM, WN / TN>(tid % 32);
  const int tr = tid / 32 / (BN / WN) * WM + lane.row * 4;
  const int tc = tid / 32 % (BN / WN) * WN + lane.col * 4;

  // A slice passes through registers: all its loads are issued before the first store needs one.
  // Past an edge it holds 0, which adds nothing, so that the FMA loop needs no bounds check.
  float4 a_next[a_loads], b_next[b_loads];
  // global -> registers: neighbouring threads take neighbouring addresses.
  const auto load = [&](int k0) {
#pragma unroll
    for (int l = 0; l < a_loads; ++l) {
      const int i = tid + l * threads, r = row0 + i / (BK / 4), k = k0 + i % (BK / 4) * 4;
      a_next[l] = load4(A, M, K, r, k);
    }
#pragma unroll
    for (int l = 0; l < b_loads; ++l) {
      const int i = tid + l * threads, k = k0 + i / (BN / 4), c = col0 + i % (BN / 4) * 4;
      b_next[l] = load4(B, K, N, k, c);
    }
  };
  // registers -> shared: A is transposed on the way.
  const auto store = [&](int stage) {
#pragma unroll
    for (int l = 0; l < a_loads; ++l) {
      const int i = tid + l * threads, r = i / (BK / 4), k = i % (BK / 4) * 4;
      As[stage][AsLayout::at(k + 0, r)] = a_next[l].x;
      As[stage][AsLayout::at(k + 1, r)] = a_next[l].y;
      As[stage][AsLayout::at(k + 2, r)] = a_next[l].z;
      As[stage][AsLayout::at(k + 3, r)] = a_next[l].w;
    }
#pragma unroll
    for (int l = 0; l < b_loads; ++l) {
      const int i = tid + l * threads;
      *reinterpret_cast<float4*>(&Bs[stage][i / (BN / 4)][i % (BN / 4) * 4]) = b_next[l];
    }
  };

  if (K > 0) {
    load(0);
    store(0);
  }
  __syncthreads();  // the first slice is whole before anyone reads it

  for (int k0 = 0; k0 < K; k0 += BK) {
    const int stage = k0 / BK % 2;
    const bool more = k0 + BK < K;

    // 1. Ask for the next slice. Nobody needs the values yet, so nobody waits.
    if (more) {
      load(k0 + BK);
    }

    // 2. shared -> registers, then the outer product.
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      alignas(16) float a[TM], b[TN];
#pragma unroll
      for (int i = 0; i < TM; i += 4)
        copy4(&a[i], &As[stage][AsLayout::at(k, tr + i / 4 * row_step)]);
#pragma unroll
      for (int j = 0; j < TN; j += 4) copy4(&b[j], &Bs[stage][k][tc + j / 4 * col_step]);
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * b[j];
    }

    // 3. Store it where the slice before this one lay: everyone is done with that.
    if (more) store(1 - stage);
    __syncthreads();  // the next slice is whole, and this one is free
  }

  // 4. registers -> global, float by float: four at once would have to lie in four registers that follow
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

template <LaneMap map, Tile T>
Run prepare(const Problem& p) {
  const auto [M, N, K] = p.shape;
  return launch(warp_tiled<map, T.BM, T.BN, T.BK, T.WM, T.WN, T.TM, T.TN, T.threads(), T.blocks>,
                grid_of(p.shape, T), M, N, K, p.A, p.B, p.C);
}

template <LaneMap map, Tile T>
Kernel row(const std::string& lanes) {
  return {lanes + " " + to_string(T), prepare<map, T>, tiled_traffic(T), T};
}

constexpr Tile pair{
    .BM = 128, .BN = 128, .BK = 8, .WM = 32, .WN = 64, .TM = 8, .TN = 8, .blocks = 2};
constexpr Tile tall{.BM = 256, .BN = 128, .BK = 16, .WM = 64, .WN = 64, .TM = 16, .TN = 8};

const Register step{
    {.name = "14_gpu_warp_tiling",
     .title = "GPU, warp tiling",
     .device = this_device,
     .kernels = {row<LaneMap::row_major, pair>("row-major"), row<LaneMap::z_order, pair>("z-order"),
                 row<LaneMap::exclusive_or, pair>("exclusive or"),
                 row<LaneMap::row_major, tall>("row-major"), row<LaneMap::z_order, tall>("z-order"),
                 row<LaneMap::exclusive_or, tall>("exclusive or")}}};

}  // namespace
}  // namespace gemm
