#include "common/reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#ifdef __FAST_MATH__
#error "the reference must see NaN: build it without -ffast-math"
#endif

namespace gemm {
namespace {

// Four doubles: one AVX2 register, two SSE2 or NEON ones. g++ and clang lower it to what there is.
using Vector [[gnu::vector_size(32)]] = double;

constexpr int lanes = 4;
constexpr int vectors = 2;
constexpr int panel = vectors * lanes;  // columns of one packed panel of B
constexpr int depth = 256;  // 256 x 8 doubles are 16 KiB: half of a common L1
constexpr int block = 64;  // rows that use a packed panel before it is packed again
constexpr std::int64_t worth_threads = 1 << 14;  // less work than this is done before they wake up
constexpr int rows_at_once = 2;  // 2 x 2 x 2 accumulators leave half of 16 registers free

Vector magnitude_of(Vector x) { return x < 0 ? -x : x; }

// A slice of B, widened to fp64: packed[k][c], zero past the last column.
void pack(const Problem& p, int k0, int slice, int col0, Vector* packed) {
  const int columns = std::min(panel, p.shape.N - col0);
  double row[panel] = {};
  for (int k = 0; k < slice; ++k) {
    std::copy_n(p.B + (k0 + k) * p.ldb + col0, columns, row);
    std::memcpy(packed + k * vectors, row, sizeof row);
  }
}

// Adds the product of `Rows` rows of A and one packed panel to the sums of those rows.
template <int Rows, bool WithMagnitude>
void multiply(const Problem& p, int row, int k0, int slice, const Vector* packed,
              Vector (*product)[vectors], Vector (*magnitude)[vectors]) {
  Vector sum[Rows][vectors], absolute[Rows][vectors];
  for (int i = 0; i < Rows; ++i)
    for (int v = 0; v < vectors; ++v) {
      sum[i][v] = product[i][v];
      if constexpr (WithMagnitude) absolute[i][v] = magnitude[i][v];
    }
  const float* A = p.A + row * p.lda + k0;
  for (int k = 0; k < slice; ++k)
    for (int v = 0; v < vectors; ++v) {
      const Vector b = packed[k * vectors + v];
      for (int i = 0; i < Rows; ++i) {
        const double a = A[i * p.lda + k];
        sum[i][v] += a * b;
        if constexpr (WithMagnitude) absolute[i][v] += std::fabs(a) * magnitude_of(b);
      }
    }
  for (int i = 0; i < Rows; ++i)
    for (int v = 0; v < vectors; ++v) {
      product[i][v] = sum[i][v];
      if constexpr (WithMagnitude) magnitude[i][v] = absolute[i][v];
    }
}

void unpack(const Vector (*sums)[vectors], int rows, int columns, double* out, std::int64_t ld) {
  for (int r = 0; r < rows; ++r) std::memcpy(out + r * ld, sums[r], columns * sizeof(double));
}

// One block x panel piece of the result, from zero to the end of K.
template <bool WithMagnitude>
void piece(const Problem& p, int row0, int rows, int col0, Vector* packed, double* product,
           double* magnitude, std::int64_t ld) {
  Vector sum[block][vectors] = {}, absolute[block][vectors] = {};
  for (int k0 = 0; k0 < p.shape.K; k0 += depth) {
    const int slice = std::min(depth, p.shape.K - k0);
    pack(p, k0, slice, col0, packed);
    int r = 0;
    for (; r + rows_at_once <= rows; r += rows_at_once)
      multiply<rows_at_once, WithMagnitude>(p, row0 + r, k0, slice, packed, sum + r, absolute + r);
    for (; r < rows; ++r)
      multiply<1, WithMagnitude>(p, row0 + r, k0, slice, packed, sum + r, absolute + r);
  }
  const int columns = std::min(panel, p.shape.N - col0);
  unpack(sum, rows, columns, product, ld);
  if constexpr (WithMagnitude) unpack(absolute, rows, columns, magnitude, ld);
}

}  // namespace

void reference_rows(const Problem& p, int row0, int rows, double* product, double* magnitude) {
  const std::int64_t N = p.shape.N, panels = ceil_div(p.shape.N, panel);
  const std::int64_t pieces = ceil_div(rows, block) * panels;
#pragma omp parallel if (pieces * p.shape.K > worth_threads)
  {
    std::vector<Vector> packed(depth * vectors);
#pragma omp for schedule(dynamic)
    for (std::int64_t i = 0; i < pieces; ++i) {
      const int r = i / panels * block, c = i % panels * panel;
      const std::int64_t at = r * N + c;
      if (magnitude)
        piece<true>(p, row0 + r, std::min(block, rows - r), c, packed.data(), product + at,
                    magnitude + at, N);
      else
        piece<false>(p, row0 + r, std::min(block, rows - r), c, packed.data(), product + at,
                     nullptr, N);
    }
  }
}

}  // namespace gemm
