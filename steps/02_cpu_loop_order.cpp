// Step 02: the right loop inside.                                        Before: 01_cpu_naive.cpp
// Idea    Exchange the loops over j and k. The innermost loop then walks along a row of B and a row
//         of C: whole cache lines, and independent FMAs that the compiler turns into SIMD.
// Why     Step 01 used 1 of the 16 floats in each line of B it fetched; this one uses all 16.
// Bytes   Per FMA two floats are loaded (B, C) and one is stored (C): 2 FLOP / 12 bytes = 0.17
//         FLOP/byte. The code asks for more than step 01; the cache has far less to fetch.
// Limit   All of B passes by for every row of C. A B that outgrows the cache is fetched M times.
// More    docs/02_cpu_loop_order.md                Run   build/steps/02_cpu_loop_order --m 1024

#include <algorithm>
#include <cstddef>

#include "common/gemm.hpp"
#include "common/model/cache.hpp"

namespace gemm {
namespace {

// C[M,N] = A[M,K] * B[K,N], row-major, any M, N, K >= 0.
void loop_order(int M, int N, int K, const float* A, const float* B, float* C) {
  for (int i = 0; i < M; ++i) {
    float* c = C + std::size_t(i) * N;
    std::fill(c, c + N, 0.0f);
    for (int k = 0; k < K; ++k) {
      const float a = A[std::size_t(i) * K + k];
      const float* b = B + std::size_t(k) * N;
      for (int j = 0; j < N; ++j) c[j] += a * b[j];
    }
  }
}

Run prepare(const Problem& p) {
  return {[p](Stream) { loop_order(p.shape.M, p.shape.N, p.shape.K, p.A, p.B, p.C); }};
}

// An element of A waits in a register for a whole row of FMAs. Each of those loads its element of B
// and of C and stores C again; before them, C is zeroed.
Traffic traffic(Shape s) {
  const std::int64_t M = s.M, N = s.N, K = s.K;
  return {.global_loaded = 4 * (M * K + 2 * M * N * K), .global_stored = 4 * (M * N + M * N * K)};
}

const Register step{
    {.name = "02_cpu_loop_order",
     .title = "CPU, loops i, k, j",
     .device = this_device,
     .kernels = {
         {.name = "ikj", .prepare = prepare, .traffic = traffic, .misses = loop_order_misses}}}};

}  // namespace
}  // namespace gemm
