// The TM x TN elements of C that a thread owns, and the fragments of A and B that it multiplies.
#pragma once

#include "common/float4.hpp"
#include "common/lane_map.hpp"

namespace gemm {

/// Rows tr + (i / 4) * 4 * LM + i % 4 and columns tc + (j / 4) * 4 * LN + j % 4 of a warp tile of
/// LM x LN threads: pieces of 4 x 4 elements, so that the lanes of a warp read neighbouring 16
/// bytes. Slices of A and B lie k by k: row k of A has `lda` floats from `As` on, of B `ldb`.
template <int TM, int TN, int LM, int LN>
struct ThreadTile {
  static_assert(TM % 4 == 0 && TN % 4 == 0, "fragments are read four floats at a time");
  static constexpr int reads = TM / 4 + TN / 4;  // of 16 bytes, for every k

  alignas(16) float acc[TM][TN];
  alignas(16) float a[2][TM];  // of this k, and of the next
  alignas(16) float b[2][TN];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
      for (int j = 0; j < TN; ++j) acc[i][j] = 0;
  }

  /// Read number `n` of a k: first those of B, then those of A.
  __device__ __forceinline__ void read(int n, int into, const float* As, const float* Bs) {
    if (n < TN / 4)
      copy4(&b[into][4 * n], Bs + 4 * LN * n);
    else
      copy4(&a[into][4 * n - TN], As + LM * (4 * n - TN));
  }

  __device__ __forceinline__ void read_all(int into, const float* As, const float* Bs) {
#pragma unroll
    for (int n = 0; n < reads; ++n) read(n, into, As, Bs);
  }

  /// The outer product of one k, and between its FMAs the reads for the next one at As and Bs.
  __device__ __forceinline__ void multiply(int now, const float* As, const float* Bs) {
    // Spread over the rows of FMAs: a burst of reads would be waited for.
    constexpr int spread = TM >= 2 * reads ? 2 : 1;
#pragma unroll
    for (int i = 0; i < TM; ++i) {
      if (i % spread == 0 && i / spread < reads) read(i / spread, 1 - now, As, Bs);
      if (i == TM - 1)
#pragma unroll
        for (int n = (TM - 1) / spread + 1; n < reads; ++n) read(n, 1 - now, As, Bs);
          // Every second row backwards: the element of b at the turn is used twice in a row, and
          // comes from the operand cache the second time.
#pragma unroll
      for (int jj = 0; jj < TN; ++jj) {
        const int j = i % 2 ? jj : TN - 1 - jj;
        acc[i][j] += a[now][i] * b[now][j];
      }
    }
  }
};

/// Where results go: alpha * sum + beta * C, in the elements that lie inside; beta == 0 reads no C.
struct Output {
  float* C;
  std::int64_t ldc;
  int M, N;
  float alpha, beta;
  bool aligned;  ///< rows start at multiples of 16 bytes

  /// Columns c .. c + 3 of row r, from four sums.
  __device__ __forceinline__ void store(int r, int c, const float* sums) const {
    if (r >= M || c >= N) return;
    float* const out = C + r * ldc + c;
    alignas(16) float result[4];
    if (aligned && c + 4 <= N) {
      if (beta != 0) copy4(result, out);
#pragma unroll
      for (int e = 0; e < 4; ++e) result[e] = alpha * sums[e] + (beta != 0 ? beta * result[e] : 0);
      copy4(out, result);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (c + e < N) out[e] = alpha * sums[e] + (beta != 0 ? beta * out[e] : 0);
    }
  }

  /// Row i of a thread tile whose corner is (tr, tc).
  template <int TM, int TN, int LM, int LN>
  __device__ __forceinline__ void store_row(int tr, int tc, int i, const float* sums) const {
#pragma unroll
    for (int j = 0; j < TN; j += 4)
      store(tr + i / 4 * 4 * LM + i % 4, tc + j / 4 * 4 * LN, sums + j);
  }

  template <int TM, int TN, int LM, int LN>
  __device__ __forceinline__ void store(int tr, int tc,
                                        const ThreadTile<TM, TN, LM, LN>& tile) const {
#pragma unroll
    for (int i = 0; i < TM; ++i) store_row<TM, TN, LM, LN>(tr, tc, i, tile.acc[i]);
  }
};

}  // namespace gemm
