// Step 05: an outer product in registers.                    Before: 04_cpu_cache_oblivious.cpp
// Idea    Keep an MR x NR tile of C in vector registers over all of K. Each k adds a column of A
//         times a row of B: MR + NR floats are loaded for MR * NR FMAs.
// Why     Step 04 asked L1 for two vectors and gave it one back for every FMA, and L1 has room for
//         about two a clock: the FMA units waited two clocks out of three.
// Bytes   Asked of the cache: 2 MR NR FLOP for 4 (MR + NR) bytes, 2.2 FLOP/byte at 6 x 16 and 2.7 at
//         6 x 64, where step 04 had 0.17.
// Limit   A panel of B is NR floats out of each of K rows: a page and a cache line of its own for
//         every k. Where rows are a power of two apart the lines push each other out of the cache.
// More    docs/05_cpu_register_tiling.md     Run   build/steps/05_cpu_register_tiling --size 48

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "common/gemm.hpp"
#include "common/simd.hpp"

namespace gemm {
namespace {

// C[MR,NR] = A[MR,K] * B[K,NR], NR = NV vectors. A single vector may be a ragged one, of which only
// the first `width` lanes exist.
template <int MR, int NV>
void outer_products(int K, const float* A, std::size_t lda, const float* B, std::size_t ldb,
                    float* C, std::size_t ldc, int width) {
  const bool ragged = NV == 1 && width < lanes;
  Vector acc[MR][NV];
  unroll<MR>([&](auto i) { unroll<NV>([&](auto v) { acc[i][v] = Vector{}; }); });
  for (int k = 0; k < K; ++k) {
    Vector b[NV];
    unroll<NV>([&](auto v) {
      const float* row = B + k * ldb + v * lanes;
      b[v] = ragged ? load_first(row, width) : load(row);
    });
    unroll<MR>([&](auto i) {
      const Vector a = broadcast(A[i * lda + k]);
      unroll<NV>([&](auto v) { acc[i][v] = multiply_add(acc[i][v], a, b[v]); });
    });
  }
  unroll<MR>([&](auto i) {
    unroll<NV>([&](auto v) {
      float* c = C + i * ldc + v * lanes;
      if (ragged)
        store_first(c, acc[i][v], width);
      else
        store(c, acc[i][v]);
    });
  });
}

// A panel of NV vectors of B with all rows of A. Rows that make no tile go one by one.
template <int MR, int NV>
void panel(int M, int K, const float* A, std::size_t lda, const float* B, std::size_t ldb, float* C,
           std::size_t ldc, int width = lanes) {
  int row0 = 0;
  for (; row0 + MR <= M; row0 += MR)
    outer_products<MR, NV>(K, A + row0 * lda, lda, B, ldb, C + row0 * ldc, ldc, width);
  for (; row0 < M; ++row0)
    outer_products<1, NV>(K, A + row0 * lda, lda, B, ldb, C + row0 * ldc, ldc, width);
}

// C[M,N] = A[M,K] * B[K,N], row-major, any M, N, K >= 0. Columns that make no panel go vector by
// vector.
template <int MR, int NV>
void register_tiled(int M, int N, int K, const float* A, const float* B, float* C) {
  constexpr int NR = NV * lanes;
  const std::size_t lda = K, ldb = N, ldc = N;
  int col0 = 0;
  for (; col0 + NR <= N; col0 += NR) panel<MR, NV>(M, K, A, lda, B + col0, ldb, C + col0, ldc);
  for (; col0 < N; col0 += lanes)
    panel<MR, 1>(M, K, A, lda, B + col0, ldb, C + col0, ldc, std::min(lanes, N - col0));
}

// A tile loads MR + NR floats for each k, a row by itself 1 + NR. C is only stored.
Traffic traffic(Shape s, int MR, int NR) {
  const std::int64_t M = s.M, N = s.N, K = s.K;
  const std::int64_t tiles = M / MR, singles = M % MR;
  const std::int64_t panels = N / NR + ceil_div(s.N % NR, lanes);
  return {.global_loaded = 4 * K * (panels * (tiles * MR + singles) + N * (tiles + singles)),
          .global_stored = 4 * M * N};
}

// "6x16, 0.67 loads per FMA": of vectors, an element of A in every lane being one.
template <int MR, int NV>
std::string name_of() {
  const bool spills = MR * NV + NV + 1 > vector_registers;
  return fmt::format("{}x{}, {:.2f} loads per FMA{}", MR, NV * lanes,
                     static_cast<double>(MR + NV) / (MR * NV), spills ? ", spills" : "");
}

template <int MR, int NV>
Kernel row() {
  return {.name = name_of<MR, NV>(),
          .prepare =
              [](const Problem& p) {
                return Run{[p](Stream) {
                  register_tiled<MR, NV>(p.shape.M, p.shape.N, p.shape.K, p.A, p.B, p.C);
                }};
              },
          .traffic = [](Shape s) { return traffic(s, MR, NV * lanes); },
          .tile = {.TM = MR, .TN = NV * lanes}};
}

// A tile needs a register for each of its MR * NV sums, for NV vectors of B and one element of A;
// and at least 8 to 10 sums, since an FMA takes 4 to 5 clocks and two begin in each. AVX-512 and
// NEON have 32 registers, AVX and SSE 16.
constexpr bool has_32 = vector_registers == 32;

const Register step{
    {.name = "05_cpu_register_tiling",
     .title = "CPU, outer product in vector registers",
     .device = this_device,
     .kernels = {row<1, 1>(), row<4, 1>(), row<4, 2>(), row<12, has_32 ? 2 : 1>(),
                 row<has_32 ? 8 : 4, 3>(), row<6, has_32 ? 4 : 2>(), row<7, has_32 ? 4 : 2>()},
     .sizes = {48, 1000, 1024}}};

}  // namespace
}  // namespace gemm
