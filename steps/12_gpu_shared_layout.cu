// Step 12: the layout of the shared tiles.                    Before: 11_gpu_register_tiling.cu
// Idea    Move four floats per access. For that the tile of A is stored transposed, so that the
//         TM values a thread needs for one k are neighbours, and laid out so that the stores of a
//         warp do not meet in a bank: plain, padded and swizzled, compared.
// Why     Step 11 issued 16 loads for 64 FMAs at 8 x 8; four times wider, they are 4. A slice now
//         takes so few loads that a thread can issue all of them before it stores the first.
// Bytes   As in step 11: global 2 BM BN / (4 (BM + BN)) = 32 FLOP/byte at 128 x 128, shared
//         2 TM TN / (4 (TM + TN)) = 2 at 8 x 8. Fewer requests, same bytes.
// Limit   Loading and computing take turns: while the slice comes, no thread of the block computes.
// More    docs/12_gpu_shared_layout.md          Run   build/steps/12_gpu_shared_layout --m 4096

#include "common/float4.hpp"
#include "common/launch.hpp"
#include "common/model/traffic.hpp"
#include "common/shared_layout.hpp"

namespace gemm {
namespace {

// C[M,N] = A[M,K] * B[K,N], row-major, any M, N, K >= 0. One block per BM x BN tile of C.
template <template <int, int> class Layout, int BM, int BN, int BK, int TM, int TN, int threads,
          int blocks>
__global__ void __launch_bounds__(threads, blocks)
    shared_layout(int M, int N, int K, const float* A, const float* B, float* C) {
  static_assert(BM % TM == 0 && BN % TN == 0 && threads == BM / TM * (BN / TN),
                "thread tiles cover the block tile exactly");
  static_assert(TM % 4 == 0 && TN % 4 == 0 && BK % 4 == 0, "every access moves four floats");
  constexpr int row_step = BM / (TM / 4), col_step = BN / (TN / 4);
  constexpr int a_loads = BM * BK / 4 / threads, b_loads = BK * BN / 4 / threads;
  static_assert(4 * a_loads * threads == BM * BK && 4 * b_loads * threads == BK * BN,
                "every thread carries the same share of a slice");
  using AsLayout = Layout<BM, BK>;
  alignas(16) __shared__ float As[AsLayout::floats];  // (BK, BM): one column of A after another
  alignas(16) __shared__ float Bs[BK][BN];
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
  const auto store = [&] {
#pragma unroll
    for (int l = 0; l < a_loads; ++l) {
      const int i = tid + l * threads, r = i / (BK / 4), k = i % (BK / 4) * 4;
      As[AsLayout::at(k + 0, r)] = a_next[l].x;
      As[AsLayout::at(k + 1, r)] = a_next[l].y;
      As[AsLayout::at(k + 2, r)] = a_next[l].z;
      As[AsLayout::at(k + 3, r)] = a_next[l].w;
    }
#pragma unroll
    for (int l = 0; l < b_loads; ++l) {
      const int i = tid + l * threads;
      *reinterpret_cast<float4*>(&Bs[i / (BN / 4)][i % (BN / 4) * 4]) = b_next[l];
    }
  };

  for (int k0 = 0; k0 < K; k0 += BK) {
    // 1. global -> registers -> shared.
    load(k0);
    store();
    __syncthreads();  // the slice is whole before anyone reads it

    // 2. shared -> registers, then the outer product.
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      alignas(16) float a[TM], b[TN];
#pragma unroll
      for (int i = 0; i < TM; i += 4) copy4(&a[i], &As[AsLayout::at(k, tr + i / 4 * row_step)]);
#pragma unroll
      for (int j = 0; j < TN; j += 4) copy4(&b[j], &Bs[k][tc + j / 4 * col_step]);
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * b[j];
    }
    __syncthreads();  // everyone has finished reading before the next slice overwrites it
  }

  // 3. registers -> global, four floats at a time.
#pragma unroll
  for (int i = 0; i < TM; ++i)
#pragma unroll
    for (int j = 0; j < TN; j += 4)
      store4(C, M, N, row0 + tr + i / 4 * row_step + i % 4, col0 + tc + j / 4 * col_step,
             &acc[i][j]);
}

template <template <int, int> class Layout, Tile T>
Run prepare(const Problem& p) {
  const auto [M, N, K] = p.shape;
  return launch(shared_layout<Layout, T.BM, T.BN, T.BK, T.TM, T.TN, T.threads(), T.blocks>,
                grid_of(p.shape, T), M, N, K, p.A, p.B, p.C);
}

template <template <int, int> class Layout, Tile T>
Kernel row(const std::string& layout) {
  return {layout + " " + to_string(T), prepare<Layout, T>, tiled_traffic(T), T};
}

constexpr Tile large{.BM = 128, .BN = 128, .BK = 8, .TM = 8, .TN = 8, .blocks = 2};
constexpr Tile deep{.BM = 128, .BN = 128, .BK = 16, .TM = 8, .TN = 8, .blocks = 2};
constexpr Tile small{.BM = 64, .BN = 64, .BK = 16, .TM = 4, .TN = 4, .blocks = 3};

const Register step{{.name = "12_gpu_shared_layout",
                     .title = "GPU, layout of shared memory",
                     .device = this_device,
                     .kernels = {row<Plain, large>("plain"), row<Padded, large>("padded"),
                                 row<Swizzled, large>("swizzled"), row<Plain, deep>("plain"),
                                 row<Padded, deep>("padded"), row<Swizzled, deep>("swizzled"),
                                 row<Swizzled, small>("swizzled")}}};

}  // namespace
}  // namespace gemm
