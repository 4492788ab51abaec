// Step 01: the definition as it stands.                                          Before: nothing
// Idea    C[i][j] is the sum over k of A[i][k] * B[k][j]: three loops, one accumulator. Every later
//         step computes the same sums in another order.
// Why     It is what most people write first, and what every gain is measured against.
// Bytes   Per FMA one float of A and one of B: 2 FLOP / 8 bytes = 0.25 FLOP/byte.
// Limit   k walks down a column of B: each 64-byte line fetched gives one of its 16 floats. When
//         the K lines of a column outgrow the cache, they are gone before column j + 1 wants them.
//         The FMAs of one sum also wait for each other: no SIMD, one addition in flight.
// More    docs/01_cpu_naive.md                          Run   build/steps/01_cpu_naive --m 1024

#include <cstddef>

#include "common/gemm.hpp"
#include "common/model/cache.hpp"
#include "common/model/traffic.hpp"

namespace gemm {
namespace {

// C[M,N] = A[M,K] * B[K,N], row-major, any M, N, K >= 0.
void naive(int M, int N, int K, const float* A, const float* B, float* C) {
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      float acc = 0;
      for (int k = 0; k < K; ++k) acc += A[std::size_t(i) * K + k] * B[std::size_t(k) * N + j];
      C[std::size_t(i) * N + j] = acc;
    }
}

Run prepare(const Problem& p) {
  return {[p](Stream) { naive(p.shape.M, p.shape.N, p.shape.K, p.A, p.B, p.C); }};
}

const Register step{
    {.name = "01_cpu_naive",
     .title = "CPU, triple loop",
     .device = this_device,
     .kernels = {
         {.name = "ijk", .prepare = prepare, .traffic = untiled_traffic, .misses = naive_misses}}}};

}  // namespace
}  // namespace gemm
