// Step 11: register outer-product tiling.                       Before: 10_gpu_thread_tiling.cu
// Idea    A thread owns TM x TN elements of C and keeps them in registers. For every k it reads TM
//         values of A and TN of B from shared memory and adds their outer product to them.
// Why     Step 10 made 9 shared loads for 8 FMAs. Here TM + TN loads feed TM * TN FMAs: 16 loads
//         for 64 FMAs at 8 x 8, 4.5 times fewer per FMA.
// Bytes   Global: 2 BM BN / (4 (BM + BN)) FLOP/byte = 32 at 128 x 128.
//         Shared: 2 TM TN / (4 (TM + TN)) FLOP/byte = 2 at 8 x 8.
// Limit   Loads are 4 bytes at a time, and the rows of A that a warp reads meet in one bank.
// More    docs/11_gpu_register_tiling.md      Run   build/steps/11_gpu_register_tiling --m 4096

#include "common/launch.hpp"
#include "common/model/traffic.hpp"

namespace gemm {
namespace {

// C[M,N] = A[M,K] * B[K,N], row-major, any M, N, K >= 0. One block per BM x BN tile of C.
template <int BM, int BN, int BK, int TM, int TN, int threads, int blocks>
__global__ void __launch_bounds__(threads, blocks)
    register_tiled(int M, int N, int K, const float* A, const float* B, float* C) {
  static_assert(BM % TM == 0 && BN % TN == 0 && threads == BM / TM * (BN / TN),
                "thread tiles cover the block tile exactly");
  __shared__ float As[BM][BK];
  __shared__ float Bs[BK][BN];
  float acc[TM][TN] = {};

  const int tid = threadIdx.x;
  const int tiles_n = ceil_div(N, BN);
  const int row0 = blockIdx.x / tiles_n * BM, col0 = blockIdx.x % tiles_n * BN;
  // TM neighbouring rows, and TN columns that are BN / TN apart: neighbouring threads then read
  // neighbouring elements of Bs and write neighbouring elements of C.
  const int tr = tid / (BN / TN) * TM, tc = tid % (BN / TN);

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

    // 2. shared -> registers, then the outer product. Unrolled by 2 for the reason of step 10.
#pragma unroll 2
    for (int k = 0; k < BK; ++k) {
      float a[TM], b[TN];
#pragma unroll
      for (int i = 0; i < TM; ++i) a[i] = As[tr + i][k];
#pragma unroll
      for (int j = 0; j < TN; ++j) b[j] = Bs[k][tc + j * (BN / TN)];
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * b[j];
    }
    __syncthreads();  // everyone has finished reading before the next slice overwrites it
  }

  // 3. registers -> global.
#pragma unroll
  for (int i = 0; i < TM; ++i)
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      const int r = row0 + tr + i, c = col0 + tc + j * (BN / TN);
      if (r < M && c < N) C[std::size_t(r) * N + c] = acc[i][j];
    }
}

template <Tile T>
Run prepare(const Problem& p) {
  const auto [M, N, K] = p.shape;
  return launch(register_tiled<T.BM, T.BN, T.BK, T.TM, T.TN, T.threads(), T.blocks>,
                grid_of(p.shape, T), M, N, K, p.A, p.B, p.C);
}

template <Tile T>
Kernel row() {
  return {to_string(T), prepare<T>, tiled_traffic(T), T};
}

const Register step{
    {.name = "11_gpu_register_tiling",
     .title = "GPU, outer product in registers",
     .device = this_device,
     .kernels = {row<Tile{.BM = 64, .BN = 64, .BK = 16, .TM = 4, .TN = 4, .blocks = 3}>(),
                 row<Tile{.BM = 64, .BN = 128, .BK = 16, .TM = 8, .TN = 4, .blocks = 3}>(),
                 row<Tile{.BM = 128, .BN = 128, .BK = 8, .TM = 8, .TN = 8, .blocks = 2}>(),
                 row<Tile{.BM = 128, .BN = 128, .BK = 16, .TM = 8, .TN = 8, .blocks = 2}>(),
                 row<Tile{.BM = 128, .BN = 128, .BK = 32, .TM = 8, .TN = 8, .blocks = 2}>()}}};

}  // namespace
}  // namespace gemm
