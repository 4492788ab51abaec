// Step 04: tiling without a tile size.                           Before: 03_cpu_square_tiling.cpp
// Idea    Cut the largest of M, N, K in two and multiply the halves, again and again. At some depth
//         the blocks fit into L1, a little above into L2, above that into L3: whatever the sizes.
// Why     Step 03's T fits one cache. Recursion has a fitting block for each of them, and no number
//         to retune on the next machine.
// Bytes   From a cache of Z bytes: as step 03 at its best T, up to a constant; sqrt(Z / 12) / 4
//         FLOP/byte and at most a factor 2 less. Asked of the cache: 0.17 FLOP/byte as before.
// Limit   The cache is no longer what holds us back. Every FMA still loads B and C and stores C.
// More    docs/04_cpu_cache_oblivious.md      Run   build/steps/04_cpu_cache_oblivious --m 1024

#include <algorithm>
#include <cstddef>
#include <string>

#include "common/gemm.hpp"
#include "common/model/cache.hpp"

namespace gemm {
namespace {

// C[M,N] += A[M,K] * B[K,N]: a block each, out of matrices whose rows are lda, ldb, ldc apart.
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

// The same, cut in two where it is longest until no side is longer than a leaf.
void recurse(int M, int N, int K, const float* A, std::size_t lda, const float* B, std::size_t ldb,
             float* C, std::size_t ldc, int leaf) {
  const int longest = std::max({M, N, K});
  if (longest <= leaf) return add_product(M, N, K, A, lda, B, ldb, C, ldc);

  const int half = recursion_half(longest), rest = longest - half;
  if (M == longest) {
    recurse(half, N, K, A, lda, B, ldb, C, ldc, leaf);
    recurse(rest, N, K, A + half * lda, lda, B, ldb, C + half * ldc, ldc, leaf);
  } else if (N == longest) {
    recurse(M, half, K, A, lda, B, ldb, C, ldc, leaf);
    recurse(M, rest, K, A, lda, B + half, ldb, C + half, ldc, leaf);
  } else {
    recurse(M, N, half, A, lda, B, ldb, C, ldc, leaf);
    recurse(M, N, rest, A + half, lda, B + half * ldb, ldb, C, ldc, leaf);
  }
}

// C[M,N] = A[M,K] * B[K,N], row-major, any M, N, K >= 0.
void cache_oblivious(int M, int N, int K, const float* A, const float* B, float* C, int leaf) {
  const std::size_t lda = K, ldb = N, ldc = N;
  std::fill(C, C + M * ldc, 0.0f);
  recurse(M, N, K, A, lda, B, ldb, C, ldc, leaf);
}

// As in step 03, with the leaves along a row of C in place of tiles.
Traffic traffic(Shape s, int leaf) {
  const std::int64_t M = s.M, N = s.N, K = s.K;
  return {.global_loaded = 4 * (M * K * recursion_leaves(s.N, leaf) + 2 * M * N * K),
          .global_stored = 4 * (M * N + M * N * K)};
}

// The leaf ends the recursion where calls would cost more than they save. It only has to be long
// enough for SIMD and small enough for the smallest cache, so it is no cache's parameter: if a leaf
// is smaller than a cache wants, the calls above it make the block that does fit.
Kernel with_leaf(int leaf) {
  return {.name = "leaf=" + std::to_string(leaf),
          .prepare =
              [leaf](const Problem& p) {
                return Run{[p, leaf](Stream) {
                  cache_oblivious(p.shape.M, p.shape.N, p.shape.K, p.A, p.B, p.C, leaf);
                }};
              },
          .traffic = [leaf](Shape s) { return traffic(s, leaf); },
          .tile = {.BM = leaf, .BN = leaf, .BK = leaf},
          .misses = [leaf](Shape s, Cache cache) { return recursive_misses(s, leaf, cache); }};
}

const Register step{{.name = "04_cpu_cache_oblivious",
                     .title = "CPU, recursive halving",
                     .device = this_device,
                     .kernels = {with_leaf(32), with_leaf(64), with_leaf(128)},
                     .sizes = {1000, 1024, 1040}}};

}  // namespace
}  // namespace gemm
