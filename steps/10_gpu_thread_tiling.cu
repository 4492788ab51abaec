// Step 10: a column of C per thread.                            Before: 09_gpu_square_tiling.cu
// Idea    A thread owns TM elements of one column of C. It reads an element of B from shared
//         memory once and uses it for all TM of them, out of a register.
// Why     Step 09 made 2 shared loads per FMA. Here TM + 1 loads feed TM FMAs: 9/8 at TM = 8.
// Bytes   Global: 2 BM BN / (4 (BM + BN)) FLOP/byte = 16 at 64 x 64.
//         Shared: 2 TM / (4 (TM + 1)) FLOP/byte = 0.44 at TM = 8.
// Limit   The elements of A are still loaded once for every FMA.
// More    docs/10_gpu_thread_tiling.md          Run   build/steps/10_gpu_thread_tiling --m 4096

#include "common/launch.hpp"
#include "common/model/traffic.hpp"

namespace gemm {
namespace {

// C[M,N] = A[M,K] * B[K,N], row-major, any M, N, K >= 0. One block per BM x BN tile of C.
template <int BM, int BN, int BK, int TM, int threads, int blocks>
__global__ void __launch_bounds__(threads, blocks)
    thread_tiled(int M, int N, int K, const float* A, const float* B, float* C) {
  static_assert(BM % TM == 0 && threads == BM / TM * BN,
                "thread tiles cover the block tile exactly");
  __shared__ float As[BM][BK];
  __shared__ float Bs[BK][BN];
  float acc[TM] = {};

  const int tid = threadIdx.x;
  const int tiles_n = ceil_div(N, BN);
  const int row0 = blockIdx.x / tiles_n * BM, col0 = blockIdx.x % tiles_n * BN;
  const int tr = tid / BN * TM, tc = tid % BN;

  for (int k0 = 0; k0 < K; k0 += BK) {
    // 1. global -> shared. Neighbouring threads take neighbouring addresses.
    //    Past an edge we store 0: it adds nothing, and the FMA loop needs no bounds check.
    for (int i = tid; i < BM * BK; i += threads) {
      const int r = i / BK, k = i % BK;
      As[r][k] = row0 + r < M && k0 + k < K ? A[std::size_t(row0 + r) * K + k0 + k] : 0.0f;
    }
    for (int i = tid; i < BK * BN; i += threads) {
      const int k = i / BN, c = i % BN;
      Bs[k][c] = k0 + k < K && col0 + c < N ? B[std::size_t(k0 + k) * N + col0 + c] : 0.0f;
    }
    __syncthreads();  // the slice is whole before anyone reads it

    // 2. shared -> registers -> FMA: one element of B for TM rows. i is unrolled: acc must be
    //    indexed by constants, or it leaves the registers for local memory. k is unrolled by 2
    //    only: with all BK steps in sight the compiler loads so far ahead that it runs out of
    //    registers.
#pragma unroll 2
    for (int k = 0; k < BK; ++k) {
      const float b = Bs[k][tc];
#pragma unroll
      for (int i = 0; i < TM; ++i) acc[i] += As[tr + i][k] * b;
    }
    __syncthreads();  // everyone has finished reading before the next slice overwrites it
  }

  // 3. registers -> global.
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const int r = row0 + tr + i, c = col0 + tc;
    if (r < M && c < N) C[std::size_t(r) * N + c] = acc[i];
  }
}

template <Tile T>
Run prepare(const Problem& p) {
  const auto [M, N, K] = p.shape;
  return launch(thread_tiled<T.BM, T.BN, T.BK, T.TM, T.threads(), T.blocks>, grid_of(p.shape, T), M,
                N, K, p.A, p.B, p.C);
}

template <Tile T>
Kernel row() {
  return {to_string(T), prepare<T>, tiled_traffic(T), T};
}

const Register step{
    {.name = "10_gpu_thread_tiling",
     .title = "GPU, a column per thread",
     .device = this_device,
     .kernels = {row<Tile{.BM = 64, .BN = 64, .BK = 8, .TM = 8, .blocks = 2}>(),
                 row<Tile{.BM = 64, .BN = 64, .BK = 32, .TM = 8, .blocks = 2}>(),
                 row<Tile{.BM = 64, .BN = 64, .BK = 32, .TM = 8, .blocks = 3}>(),
                 row<Tile{.BM = 64, .BN = 64, .BK = 16, .TM = 16}>(),
                 row<Tile{.BM = 64, .BN = 64, .BK = 32, .TM = 16, .blocks = 4}>(),
                 row<Tile{.BM = 128, .BN = 64, .BK = 32, .TM = 16, .blocks = 2}>()}}};

}  // namespace
}  // namespace gemm
