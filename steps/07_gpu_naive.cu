// Step 07: a GPU thread for every element.                         Before: 02_cpu_loop_order.cpp
// Idea    Every element of C is independent of every other, so each gets a thread of its own.
//         Threads come in blocks of BM * BN; block and thread number together name the element.
// Why     A CPU core computes one row after another; a GPU keeps thousands of threads in flight.
// Bytes   Per FMA a thread loads one float of A and one of B: 2 FLOP / 8 bytes = 0.25 FLOP/byte.
// Limit   Threads are numbered down the columns of C. At 32 x 32 the 32 threads of a warp read 32
//         rows of A at once: 4 bytes each from 32 cache lines, where one line would hold all 32.
// More    docs/07_gpu_naive.md                          Run   build/steps/07_gpu_naive --m 4096

#include "common/launch.hpp"
#include "common/model/traffic.hpp"

namespace gemm {
namespace {

// C[M,N] = A[M,K] * B[K,N], row-major, any M, N, K >= 0. One block per BM x BN tile of C.
template <int BM, int BN, int threads>
__global__ void __launch_bounds__(threads)
    naive(int M, int N, int K, const float* A, const float* B, float* C) {
  static_assert(threads == BM * BN, "one thread for each element of the block tile");
  const int tid = threadIdx.x;
  const int tiles_n = ceil_div(N, BN);
  const int row0 = blockIdx.x / tiles_n * BM, col0 = blockIdx.x % tiles_n * BN;
  const int r = row0 + tid % BM, c = col0 + tid / BM;
  if (r >= M || c >= N) return;

  float acc = 0;
  for (int k = 0; k < K; ++k) acc += A[std::size_t(r) * K + k] * B[std::size_t(k) * N + c];
  C[std::size_t(r) * N + c] = acc;
}

template <Tile T>
Run prepare(const Problem& p) {
  const auto [M, N, K] = p.shape;
  return launch(naive<T.BM, T.BN, T.threads()>, grid_of(p.shape, T), M, N, K, p.A, p.B, p.C);
}

template <Tile T>
Kernel row() {
  return {to_string(T), prepare<T>, untiled_traffic, T};
}

const Register step{
    {.name = "07_gpu_naive",
     .title = "GPU, one thread per element",
     .device = this_device,
     .kernels = {row<Tile{.BM = 16, .BN = 16}>(), row<Tile{.BM = 32, .BN = 32}>()}}};

}  // namespace
}  // namespace gemm
