// Step 08: coalesced access.                                            Before: 07_gpu_naive.cu
// Idea    Number the threads along the rows of C: neighbouring threads, neighbouring addresses.
//         At BN = 32 a warp's loads of B are then one cache line, and its loads of A one address.
// Why     Step 07 at 32 x 32 touched 33 cache lines per warp and k, 32 of A and 1 of B; this is 2.
// Bytes   What the code asks for is unchanged: 2 FLOP / 8 bytes = 0.25 FLOP/byte. What changes is
//         how many of the fetched bytes are used.
// Limit   Two loads still feed one FMA: the load/store pipe, not the arithmetic, sets the pace.
// More    docs/08_gpu_coalesced.md                  Run   build/steps/08_gpu_coalesced --m 4096

#include "common/launch.hpp"
#include "common/model/traffic.hpp"

namespace gemm {
namespace {

// C[M,N] = A[M,K] * B[K,N], row-major, any M, N, K >= 0. One block per BM x BN tile of C.
template <int BM, int BN, int threads>
__global__ void __launch_bounds__(threads)
    coalesced(int M, int N, int K, const float* A, const float* B, float* C) {
  static_assert(threads == BM * BN, "one thread for each element of the block tile");
  const int tid = threadIdx.x;
  const int tiles_n = ceil_div(N, BN);
  const int row0 = blockIdx.x / tiles_n * BM, col0 = blockIdx.x % tiles_n * BN;
  const int r = row0 + tid / BN, c = col0 + tid % BN;
  if (r >= M || c >= N) return;

  float acc = 0;
  for (int k = 0; k < K; ++k) acc += A[std::size_t(r) * K + k] * B[std::size_t(k) * N + c];
  C[std::size_t(r) * N + c] = acc;
}

template <Tile T>
Run prepare(const Problem& p) {
  const auto [M, N, K] = p.shape;
  return launch(coalesced<T.BM, T.BN, T.threads()>, grid_of(p.shape, T), M, N, K, p.A, p.B, p.C);
}

template <Tile T>
Kernel row() {
  return {to_string(T), prepare<T>, untiled_traffic, T};
}

const Register step{{.name = "08_gpu_coalesced",
                     .title = "GPU, coalesced access",
                     .device = this_device,
                     .kernels = {row<Tile{.BM = 8, .BN = 32}>(), row<Tile{.BM = 16, .BN = 16}>(),
                                 row<Tile{.BM = 32, .BN = 32}>()}}};

}  // namespace
}  // namespace gemm
