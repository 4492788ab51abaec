// The slices of A and B in shared memory: a ring of stages.
#pragma once

namespace gemm {

/// Row k of a slice of A are the BM elements of its column k, at a distance of `lda` floats.
template <int lda, int BN, int BK, int stages>
struct Ring {
  alignas(128) float As[stages][BK][lda];
  alignas(128) float Bs[stages][BK][BN];
};

/// The distance at which a warp that copies 8 k of 4 rows of A, a float a lane, writes to 32
/// different banks.
constexpr int transposed_pitch(int BM) { return BM + 4; }

}  // namespace gemm
