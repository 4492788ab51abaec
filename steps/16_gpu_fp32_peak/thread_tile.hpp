// The TM x TN elements of C that a thread owns, and the fragments of A and B that it multiplies.
#pragma once

#include "common/float4.hpp"
#include "common/lane_map.hpp"

namespace gemm {
namespace {

/// Rows tr + (i / 4) * 4 * LM + i % 4 and columns tc + (j / 4) * 4 * LN + j % 4 of a warp tile of
/// LM x LN threads: pieces of 4 x 4 elements, so that the lanes of a warp read neighbouring 16
/// bytes. Slices of A and B lie k by k.
template <int TM, int TN, int LM, int LN>
struct ThreadTile {
  static_assert(TM % 4 == 0 && TN % 4 == 0, "fragments are read four floats at a time");
  static constexpr int reads = TM / 4 + TN / 4;  // of 16 bytes, for every k
  static_assert(reads <= TN, "one read goes with each column");

  alignas(16) float acc[TM][TN];
  alignas(16) float a[2][TM];  // of this k, and of the next
  alignas(16) float b[2][TN];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
      for (int j = 0; j < TN; ++j) acc[i][j] = 0;
  }

  /// Read number `n` of one k: first those of A, then those of B.
  __device__ __forceinline__ void read(int n, int into, const float* As, const float* Bs) {
    if (n < TM / 4)
      copy4(&a[into][4 * n], As + 4 * LM * n);
    else
      copy4(&b[into][4 * n - TM], Bs + LN * (4 * n - TM));
  }

  __device__ __forceinline__ void read_all(int into, const float* As, const float* Bs) {
#pragma unroll
    for (int n = 0; n < reads; ++n) read(n, into, As, Bs);
  }

  /// The outer product of one k, and between its FMAs the reads for the next one at As and Bs.
  __device__ __forceinline__ void multiply(int now, const float* As, const float* Bs) {
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      if (j < reads) read(j, 1 - now, As, Bs);
        // Every second column upwards: the element of a at the turn is used twice in a row, and comes
        // from the operand cache the second time.
#pragma unroll
      for (int ii = 0; ii < TM; ++ii) {
        const int i = j % 2 ? TM - 1 - ii : ii;
        acc[i][j] += a[now][i] * b[now][j];
      }
    }
  }
};

/// The pieces of 4 x 4 elements that the lanes of a warp own next to each other: 512 floats.
constexpr int passed_floats = 32 * 16;

/// Where results go: alpha * sum + beta * C, in the elements that lie inside; beta == 0 reads no C.
struct Output {
  float* C;
  std::int64_t ldc;
  int M, N;
  float alpha, beta;
  bool aligned;  ///< rows start at multiples of 16 bytes

  /// Element (r, c), from a sum that has been multiplied by alpha.
  __device__ __forceinline__ void finish(int r, int c, float scaled) const {
    if (r >= M || c >= N) return;
    float* const out = C + r * ldc + c;
    *out = scaled + (beta != 0 ? beta * *out : 0);
  }

  /// The same of columns c .. c + 3.
  __device__ __forceinline__ void finish4(int r, int c, const float* scaled) const {
    if (aligned && r < M && c + 4 <= N) {
      float* const out = C + r * ldc + c;
      alignas(16) float result[4];
      if (beta != 0) copy4(result, out);
#pragma unroll
      for (int e = 0; e < 4; ++e) result[e] = scaled[e] + (beta != 0 ? beta * result[e] : 0);
      copy4(out, result);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) finish(r, c + e, scaled[e]);
    }
  }

  /// Four elements of a thread tile, multiplied by alpha. They are new values: if the accumulators
  /// themselves had to lie four by four in registers, FMAs would meet in one bank.
  template <int TM, int TN, int LM, int LN>
  __device__ __forceinline__ void scale4(float* scaled, const ThreadTile<TM, TN, LM, LN>& tile,
                                         int i, int j) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) scaled[e] = alpha * tile.acc[i][j + e];
  }

  /// A thread tile whose corner in C is (tr, tc), straight from registers.
  template <int TM, int TN, int LM, int LN>
  __device__ __forceinline__ void store(int tr, int tc,
                                        const ThreadTile<TM, TN, LM, LN>& tile) const {
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
      for (int j = 0; j < TN; j += 4) {
        alignas(16) float scaled[4];
        scale4(scaled, tile, i, j);
        finish4(tr + i / 4 * 4 * LM + i % 4, tc + j / 4 * 4 * LN, scaled);
      }
  }

  /// The thread tiles of a warp whose corner in C is (r, c), by whole rows through passed_floats of
  /// shared memory of its own: where rows start anywhere, four neighbouring elements of a thread have
  /// to go one by one, and lanes that each write one would touch four times as many sectors as their
  /// elements fill.
  template <int TM, int TN, int LM, int LN>
  __device__ __forceinline__ void store_rows(int r, int c, LanePlace place,
                                             const ThreadTile<TM, TN, LM, LN>& tile,
                                             float* shared) const {
    constexpr int rows = 4 * LM, columns = 4 * LN;
    static_assert(rows * columns == passed_floats && columns == 32);
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < TM; i += 4)
#pragma unroll
      for (int j = 0; j < TN; j += 4) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          alignas(16) float scaled[4];
          scale4(scaled, tile, i + e, j);
          copy4(shared + (place.row * 4 + e) * columns + place.col * 4, scaled);
        }
        __syncwarp();
#pragma unroll 8
        for (int row = 0; row < rows; ++row)
          finish(r + i * LM + row, c + j * LN + lane, shared[row * columns + lane]);
        __syncwarp();
      }
  }
};

/// True where rows of a matrix start at multiples of 16 bytes.
inline bool rows_start_aligned(const float* matrix, std::int64_t ld) {
  return reinterpret_cast<std::uintptr_t>(matrix) % 16 == 0 && ld % 4 == 0;
}

/// The output of a problem.
inline Output output_of(const Problem& p) {
  return {p.C, p.ldc, p.shape.M, p.shape.N, p.alpha, p.beta, rows_start_aligned(p.C, p.ldc)};
}

}  // namespace
}  // namespace gemm
