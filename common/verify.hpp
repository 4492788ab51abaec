// Operands, and the proof that a kernel multiplied them right.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/backend.hpp"
#include "common/gemm.hpp"

namespace gemm {

/// How operands are filled. `integers`: small ones, so that every product sum is exact in fp32 in
/// any order of summation (|x| <= r with r * r * K < 2^24).
enum class Init { integers, uniform, normal, zeros };

/// "int", "uniform", "normal", "zeros": the words of --init.
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
  /// would not stay exact (K >= 2^24).
  Operands(Backend& backend, Shape shape, Init init, BlasTerms terms = {});
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

/// What a check found. `failure` is empty when the result is right; otherwise one line that names
/// the first wrong element, or what was overwritten.
struct Verdict {
  std::string failure;
  bool exact = false;
  double worst = 0;  ///< largest |c - ref| in units of u * (|A||B|); 0 when exact
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
