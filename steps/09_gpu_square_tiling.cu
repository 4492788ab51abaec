// Step 09: square tiling in shared memory.                          Before: 08_gpu_coalesced.cu
// Idea    A block copies a square tile of A and one of B into shared memory, where all its threads
//         use them, and walks along K tile by tile. It is step 03 with the cache in our own hands.
// Why     In step 08 every thread fetched a whole row and a whole column for itself. Here an
//         element of A is fetched once for BN threads, an element of B once for BM.
// Bytes   Global: 2 BM BN / (4 (BM + BN)) FLOP/byte = 8 at 32 x 32, whatever BK is.
//         Shared: 2 loads per FMA, 2 FLOP / 8 bytes = 0.25 FLOP/byte.
// Limit   Shared memory answers one warp request a clock; an FMA needs two, and 4 could start.
// More    docs/09_gpu_square_tiling.md          Run   build/steps/09_gpu_square_tiling --m 4096

#include "common/launch.hpp"
#include "common/model/traffic.hpp"

namespace gemm {
namespace {

// C[M,N] = A[M,K] * B[K,N], row-major, any M, N, K >= 0. One block per BM x BN tile of C.
template <int BM, int BN, int BK>
__global__ __launch_bounds__(BM * BN) void square_tiled(int M, int N, int K, const float* A,
                                                        const float* B, float* C) {
  static_assert(BM == BN, "this step's tiles of C are square; step 10 lets go of that");
  constexpr int threads = BM * BN;
  __shared__ float As[BM][BK];
  __shared__ float Bs[BK][BN];
  float acc = 0;

  const int tid = threadIdx.x;
  const int tiles_n = ceil_div(N, BN);
  const int row0 = blockIdx.x / tiles_n * BM, col0 = blockIdx.x % tiles_n * BN;
  const int tr = tid / BN, tc = tid % BN;

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

    // 2. shared -> FMA.
    for (int k = 0; k < BK; ++k) acc += As[tr][k] * Bs[k][tc];
    __syncthreads();  // everyone has finished reading before the next slice overwrites it
  }

  // 3. register -> global.
  const int r = row0 + tr, c = col0 + tc;
  if (r < M && c < N) C[std::size_t(r) * N + c] = acc;
}

template <Tile T>
Run prepare(const Problem& p) {
  const auto [M, N, K] = p.shape;
  return launch(square_tiled<T.BM, T.BN, T.BK>, grid_of(p.shape, T), M, N, K, p.A, p.B, p.C);
}

constexpr Tile small{.BM = 16, .BN = 16, .BK = 16};
constexpr Tile large{.BM = 32, .BN = 32, .BK = 32};
constexpr Tile deep{.BM = 32, .BN = 32, .BK = 64};

const Register step{
    {.name = "09_gpu_square_tiling",
     .title = "GPU, square tiles in shared memory",
     .device = this_device,
     .kernels = {{"16x16x16", prepare<small>, tiled_traffic(small), small},
                 {"32x32x32", prepare<large>, tiled_traffic(large), large},
                 {"32x32x64", prepare<deep>, tiled_traffic(deep), deep}}}};

}  // namespace
}  // namespace gemm
