// Step 03: square tiling for the cache.                             Before: 02_cpu_loop_order.cpp
// Idea    Multiply T x T tiles by step 02's loops, so small that a tile of A, of B and of C stay in
//         the cache together. Three tiles of T * T floats in Z bytes: T = sqrt(Z / 12).
// Why     Step 02 fetched each element of B once per row of C; here it is once per T rows.
// Bytes   From memory: 2 T^3 FLOP for two tiles of 4 T^2 bytes = T / 4 FLOP/byte, 12 at T = 48.
//         Asked of the cache: 0.17 FLOP/byte as before, every FMA still goes there.
// Limit   T belongs to one cache of one machine, and a machine has two or three. Rows a power of two
//         apart fall into the same few sets of a cache: a tile may not fit where its size would.
// More    docs/03_cpu_square_tiling.md          Run   build/steps/03_cpu_square_tiling --m 1024

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

#include "common/gemm.hpp"
#include "common/machine.hpp"
#include "common/model/cache.hpp"

namespace gemm {
namespace {

// C[M,N] += A[M,K] * B[K,N]: a tile each, out of matrices whose rows are lda, ldb, ldc apart.
void add_product(int M, int N, int K, const float* A, std::size_t lda, const float* B,
                 std::size_t ldb, float* C, std::size_t ldc) {
  for (int i = 0; i < M; ++i) {
    float* c = C + i * ldc;
    for (int k = 0; k < K; ++k) {
      const float a = A[i * lda + k];
      const float* b = B + k * ldb;
      for (int j = 0; j < N; ++j) c[j] += a * b[j];
    }
  }
}

// C[M,N] = A[M,K] * B[K,N], row-major, any M, N, K >= 0. BM = BN = BK: the tiles are square.
void square_tiled(int M, int N, int K, const float* A, const float* B, float* C, Tile t) {
  const std::size_t lda = K, ldb = N, ldc = N;
  std::fill(C, C + M * ldc, 0.0f);
  for (int row0 = 0; row0 < M; row0 += t.BM)
    for (int col0 = 0; col0 < N; col0 += t.BN)
      for (int k0 = 0; k0 < K; k0 += t.BK)
        add_product(std::min(t.BM, M - row0), std::min(t.BN, N - col0), std::min(t.BK, K - k0),
                    A + row0 * lda + k0, lda, B + k0 * ldb + col0, ldb, C + row0 * ldc + col0, ldc);
}

// As in step 02, but an element of A is loaded again for every tile along its row of C.
Traffic traffic(Shape s, Tile t) {
  const std::int64_t M = s.M, N = s.N, K = s.K;
  return {.global_loaded = 4 * (M * K * ceil_div(s.N, t.BN) + 2 * M * N * K),
          .global_stored = 4 * (M * N + M * N * K)};
}

Kernel square(int T, const std::string& note) {
  const Tile t{.BM = T, .BN = T, .BK = T};
  return {.name = "T=" + std::to_string(T) + note,
          .prepare =
              [t](const Problem& p) {
                return Run{[p, t](Stream) {
                  square_tiled(p.shape.M, p.shape.N, p.shape.K, p.A, p.B, p.C, t);
                }};
              },
          .traffic = [t](Shape s) { return traffic(s, t); },
          .tile = t,
          .misses = [T](Shape s, Cache cache) { return square_tiling_misses(s, T, cache); }};
}

// A sweep over T, with the T that the model predicts for the first two caches of this machine.
std::vector<Kernel> kernels() {
  std::map<int, std::string> rows{{16, ""}, {32, ""}, {64, ""}, {128, ""}, {256, ""}, {512, ""}};
  const std::vector<MemoryLevel> caches = cpu_caches();
  for (std::size_t level = 0; level < caches.size() && level < 2; ++level)
    rows[best_square_tile(caches[level].bytes)] = " (model: " + caches[level].name + ")";

  std::vector<Kernel> all;
  for (const auto& [T, note] : rows) all.push_back(square(T, note));
  return all;
}

// 1000 and 1040 beside 1024: nearly the same work, without rows a power of two apart.
const Register step{{.name = "03_cpu_square_tiling",
                     .title = "CPU, square tiles",
                     .device = this_device,
                     .kernels = kernels(),
                     .sizes = {1000, 1024, 1040}}};

}  // namespace
}  // namespace gemm
