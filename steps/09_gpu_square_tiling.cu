// Step 09: square tiling in shared memory.                          Before: 08_gpu_coalesced.cu
// Idea    A block copies a square tile of A and one of B into shared memory, where all its threads
//         use them, and walks along K tile by tile. It is step 03 with the cache in our own hands.
// Why     In step 08 every thread fetched a whole row and a whole column for itself. Here an
//         element of A is fetched once for BN threads, an element of B once for BM.
// Bytes   Global: 2 BM BN / (4 (BM + BN)) FLOP/byte = 8 at 32 x 32, whatever BK is.
//         Shared: 2 loads per FMA, 2 FLOP / 8 bytes = 0.25 FLOP/byte.
// Limit   Shared memory serves one wavefront a clock. An FMA takes two (6 for 4 FMAs where the
//         compiler merges loads of A), and 4 FMAs could start meanwhile.
// More    docs/09_gpu_square_tiling.md          Run   build/steps/09_gpu_square_tiling --m 4096

#include "common/launch.hpp"
#include "common/model/traffic.hpp"

namespace gemm {
namespace {

// C[M,N] = A[M,K] * B[K,N], row-major, any M, N, K >= 0. One block per BM x BN tile of C.
template <int BM, int BN, int BK, int threads, int blocks>
__global__ void __launch_bounds__(threads, blocks)
    square_tiled(int M, int N, int K, const float* A, const float* B, float* C) {
  static_assert(threads == BM * BN, "one thread for each element of the block tile");
  static_assert(BM == BN && BK % BN == 0, "square tiles; step 10 lets go of that");
  constexpr int loads = BK / BN;  // of A, and as many of B, by each thread
  __shared__ float As[BM][BK];
  __shared__ float Bs[BK][BN];
  float acc = 0;

  const int tid = threadIdx.x;
  const int tiles_n = ceil_div(N, BN);
  const int row0 = blockIdx.x / tiles_n * BM, col0 = blockIdx.x % tiles_n * BN;
  const int tr = tid / BN, tc = tid % BN;
  const int r = row0 + tr, c = col0 + tc;

  for (int k0 = 0; k0 < K; k0 += BK) {
    // 1. global -> shared. Neighbouring threads take neighbouring addresses, and a thread issues
    //    all its loads before its first store, so that it waits for them together.
    //    Past an edge we store 0: it adds nothing, and the FMA loop needs no bounds check.
    float a[loads], b[loads];
#pragma unroll
    for (int l = 0; l < loads; ++l) {
      const int k = k0 + tc + l * BN;
      a[l] = r < M && k < K ? A[std::size_t(r) * K + k] : 0.0f;
    }
#pragma unroll
    for (int l = 0; l < loads; ++l) {
      const int k = k0 + tr + l * BM;
      b[l] = k < K && c < N ? B[std::size_t(k) * N + c] : 0.0f;
    }
#pragma unroll
    for (int l = 0; l < loads; ++l) As[tr][tc + l * BN] = a[l];
#pragma unroll
    for (int l = 0; l < loads; ++l) Bs[tr + l * BM][tc] = b[l];
    __syncthreads();  // the slice is whole before anyone reads it

    // 2. shared -> FMA.
#pragma unroll
    for (int k = 0; k < BK; ++k) acc += As[tr][k] * Bs[k][tc];
    __syncthreads();  // everyone has finished reading before the next slice overwrites it
  }

  // 3. register -> global.
  if (r < M && c < N) C[std::size_t(r) * N + c] = acc;
}

template <Tile T>
Run prepare(const Problem& p) {
  const auto [M, N, K] = p.shape;
  return launch(square_tiled<T.BM, T.BN, T.BK, T.threads(), T.blocks>, grid_of(p.shape, T), M, N, K,
                p.A, p.B, p.C);
}

template <Tile T>
Kernel row() {
  return {to_string(T), prepare<T>, tiled_traffic(T), T};
}

const Register step{{.name = "09_gpu_square_tiling",
                     .title = "GPU, square tiles in shared memory",
                     .device = this_device,
                     .kernels = {row<Tile{.BM = 16, .BN = 16, .BK = 16, .blocks = 8}>(),
                                 row<Tile{.BM = 32, .BN = 32, .BK = 32}>(),
                                 row<Tile{.BM = 32, .BN = 32, .BK = 32, .blocks = 2}>(),
                                 row<Tile{.BM = 32, .BN = 32, .BK = 64, .blocks = 2}>(),
                                 row<Tile{.BM = 32, .BN = 32, .BK = 128, .blocks = 2}>()}}};

}  // namespace
}  // namespace gemm
