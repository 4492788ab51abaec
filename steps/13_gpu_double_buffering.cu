// Step 13: double buffering.                                    Before: 12_gpu_shared_layout.cu
// Idea    Two slices in shared memory: one is used while the next one is on its way. The next
//         slice's loads are issued before the compute, into registers, and stored after it.
// Why     In step 12 every thread waited for global memory, then computed, then waited again. A
//         load takes hundreds of clocks; the compute between issue and use is what hides them.
// Bytes   As in step 12: global 32 FLOP/byte at 128 x 128, shared 2 at 8 x 8. The same bytes, but
//         asked for earlier; and one barrier a slice instead of two.
// Limit   The next slice passes through registers, and all threads still meet at every slice.
// More    docs/13_gpu_double_buffering.md    Run   build/steps/13_gpu_double_buffering --m 4096

#include <array>
#include <utility>

#include "common/candidates.hpp"
#include "common/float4.hpp"
#include "common/launch.hpp"
#include "common/model/traffic.hpp"
#include "common/shared_layout.hpp"

namespace gemm {
namespace {

// Where the loads of the next slice stand. After the compute nothing overlaps inside a thread, and
// all that two buffers save is a barrier; before it, the compute hides the loads.
enum class Loads { after_compute, before_compute };

// C[M,N] = A[M,K] * B[K,N], row-major, any M, N, K >= 0. One block per BM x BN tile of C.
template <Loads loads, int BM, int BN, int BK, int TM, int TN, int threads, int blocks>
__global__ void __launch_bounds__(threads, blocks)
    double_buffered(int M, int N, int K, const float* A, const float* B, float* C) {
  static_assert(BM % TM == 0 && BN % TN == 0 && threads == BM / TM * (BN / TN),
                "thread tiles cover the block tile exactly");
  static_assert(TM % 4 == 0 && TN % 4 == 0 && BK % 4 == 0, "every access moves four floats");
  constexpr int row_step = BM / (TM / 4), col_step = BN / (TN / 4);
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
  // A thread owns TM/4 x TN/4 pieces of 4 x 4 elements, row_step and col_step apart: neighbouring
  // threads then read neighbouring 16 bytes.
  const int tr = tid / (BN / TN) * 4, tc = tid % (BN / TN) * 4;

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
    if (loads == Loads::before_compute && more) {
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

    // 3. Load it now, if not before. Store it where the slice before this one lay: everyone is
    //    done with that.
    if (loads == Loads::after_compute && more) load(k0 + BK);
    if (more) store(1 - stage);
    __syncthreads();  // the next slice is whole, and this one is free
  }

  // 4. registers -> global, four floats at a time.
#pragma unroll
  for (int i = 0; i < TM; ++i)
#pragma unroll
    for (int j = 0; j < TN; j += 4)
      store4(C, M, N, row0 + tr + i / 4 * row_step + i % 4, col0 + tc + j / 4 * col_step,
             &acc[i][j]);
}

template <Loads loads, Tile T>
Run prepare(const Problem& p) {
  const auto [M, N, K] = p.shape;
  return launch(double_buffered<loads, T.BM, T.BN, T.BK, T.TM, T.TN, T.threads(), T.blocks>,
                grid_of(p.shape, T), M, N, K, p.A, p.B, p.C);
}

template <Loads loads, Tile T>
Kernel row(const std::string& order) {
  return {order + " " + to_string(T), prepare<loads, T>, tiled_traffic(T), T};
}

constexpr auto after = Loads::after_compute, before = Loads::before_compute;
constexpr Tile alone{.BM = 128, .BN = 128, .BK = 16, .TM = 8, .TN = 8};
constexpr Tile pair{.BM = 128, .BN = 128, .BK = 8, .TM = 8, .TN = 8, .blocks = 2};
constexpr Tile wide{.BM = 64, .BN = 128, .BK = 16, .TM = 8, .TN = 8, .blocks = 3};
constexpr Tile tall{.BM = 256, .BN = 128, .BK = 16, .TM = 16, .TN = 8};

// What --tune chooses from: BM x BN, BK and TM x TN, each with each.
constexpr auto tiles = [] {
  std::array<Tile, 4 * 3 * 4> all{};
  auto next = all.begin();
  for (const auto& [BM, BN] : {std::pair{64, 64}, {64, 128}, {128, 128}, {256, 128}})
    for (const int BK : {8, 16, 32})
      for (const auto& [TM, TN] : {std::pair{4, 4}, {8, 4}, {8, 8}, {16, 8}})
        *next++ = {.BM = BM, .BN = BN, .BK = BK, .TM = TM, .TN = TN};
  return all;
}();

const Register step{
    {.name = "13_gpu_double_buffering",
     .title = "GPU, double buffering",
     .device = this_device,
     .kernels = {row<after, alone>("load after"), row<before, alone>("load before"),
                 row<after, pair>("load after"), row<before, pair>("load before"),
                 row<before, wide>("load before"), row<before, tall>("load before")},
     .candidates = candidates<tiles, 2>([](auto tile) { return prepare<before, tile()>; })}};

}  // namespace
}  // namespace gemm
