// Operands, and the proof that a kernel multiplied them right.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/backend.hpp"
#include "common/gemm.hpp"

namespace gemm {

/// How operands are filled. `integers`: small ones, so that every product sum is exact in fp32 in
/// any order of summation (|x| <= r with r * r * K < 2^24). `uniform`: in [-1, 1). `positive`: uniform
/// in [0, 1), so that no sum loses digits by cancelling. `wide`: either sign, and magnitudes that are
/// uniform in their logarithm from 2^-20 to 2^20. `normal`: mean 0, variance 1.
enum class Init { integers, uniform, positive, wide, normal, zeros };

/// "int", "uniform", "positive", "wide", "normal", "zeros": the words of --init.
std::string name_of(Init init);

/// The rest of the BLAS contract, for kernels that keep it. A leading dimension of 0 is dense.
/// With `operands` in BF16 every entry of A and B is rounded to BF16 first, and kept in both forms.
struct BlasTerms {
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  float alpha = 1, beta = 0;
  Element operands = Element::fp32;
};

/// Whether sums of K products of small integers stay so small that fp32 holds them: K < 2^24.
bool integers_stay_exact(int K, const BlasTerms& terms);

/// A, B and C of one shape in device memory, with guard words before and after each of them.
/// Between the end of a row and the next leading dimension lies NaN. Deterministic: the same shape
/// and init give the same operands.
class Operands {
 public:
  /// Throws Refusal: no_memory when the device cannot hold them, unsupported for integers that
  /// would not stay exact (K >= 2^24) and positive numbers whose sums would drift (K > 2^18).
  /// Each `seed` draws other entries.
  Operands(Backend& backend, Shape shape, Init init, BlasTerms terms = {}, int seed = 0);
  ~Operands();

  const Problem& problem() const;

  /// Fills C with NaN, so that an element which nobody writes is seen; where beta is not 0, with
  /// the same C as the first time.
  void poison();

 private:
  friend class Verifier;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// |c - ref| over all elements of C: the largest, and the root mean square. Each in the unit of its
/// element's bound, u * (|alpha||A||B| + |beta||C|), u = 2^-24.
struct Errors {
  double max = 0, rms = 0;
};

/// What a check found. `failure` is empty when the result is right; otherwise one line that names
/// the first wrong element, or what was overwritten.
struct Verdict {
  std::string failure;
  bool exact = false;
  std::optional<Errors> errors{};  ///< of a right result, where it need not be exact
};

/// Checks results against an fp64 reference of the same operands, computed once and kept where it
/// fits. Integer operands must match to the bit (where alpha and beta are integers too); others
/// within f(K) * u * (|alpha||A||B| + |beta||C|), u = 2^-24,
/// f(K) = 2 sqrt(K) + 4 (probabilistic bound: Higham and Mary, SIAM J. Sci. Comput. 41, 2019).
/// BF16 operands change nothing: their products are exact in fp32, and only sums round.
/// NaN fails. Words outside C and all of A and B must be untouched.
class Verifier {
 public:
  Verifier(Backend& backend, Operands& operands);
  ~Verifier();

  /// Poisons C, runs once, checks every element. Failed launches throw Refusal(device_error).
  Verdict check(const Run& run);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace gemm
