// The checker on a CPU, against multiplications that are right and ones that are not.
#include "common/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "common/backend.hpp"
#include "common/bfloat16.hpp"
#include "common/error.hpp"
#include "common/peers/peers.hpp"
#include "common/reference.hpp"
#include "tests/contains.hpp"

namespace gemm {
namespace {

// The whole BLAS contract, as plainly as it can be written.
void multiply(const Problem& p) {
  for (int r = 0; r < p.shape.M; ++r)
    for (int c = 0; c < p.shape.N; ++c) {
      float sum = 0;
      for (int k = 0; k < p.shape.K; ++k) sum += p.A[r * p.lda + k] * p.B[k * p.ldb + c];
      float& out = p.C[r * p.ldc + c];
      out = p.beta == 0 ? p.alpha * sum : p.alpha * sum + p.beta * out;
    }
}

Run honest(const Problem& p) {
  return {[p](Stream) { multiply(p); }};
}

// An honest multiplication, and then something that should not have happened.
template <typename Sabotage>
Run spoiled(const Problem& p, Sabotage sabotage) {
  return {[p, sabotage](Stream) {
    multiply(p);
    sabotage(p);
  }};
}

constexpr Init every_init[] = {Init::integers, Init::uniform, Init::positive,
                               Init::wide,     Init::normal,  Init::zeros};

class VerifyTest : public testing::Test {
 protected:
  template <typename Sabotage>
  std::string failure(Sabotage sabotage, Init init = Init::integers, BlasTerms terms = {}) {
    Operands operands(*backend_, shape_, init, terms);
    return Verifier(*backend_, operands).check(spoiled(operands.problem(), sabotage)).failure;
  }

  const Shape shape_{17, 23, 29};
  const std::unique_ptr<Backend> backend_ = open_backend(Device::cpu);
};

TEST_F(VerifyTest, PassesAnHonestKernelOnEveryShapeAndInit) {
  for (Init init : every_init)
    for (Shape shape :
         {Shape{0, 3, 2}, {3, 0, 2}, {3, 2, 0}, {1, 1, 1}, {17, 23, 29}, {65, 9, 300}})
      for (BlasTerms terms : {BlasTerms{}, BlasTerms{.lda = 301, .ldb = 24, .ldc = 40},
                              BlasTerms{.alpha = -2, .beta = 3}, BlasTerms{.alpha = 0.3f}}) {
        Operands operands(*backend_, shape, init, terms);
        const Verdict verdict = Verifier(*backend_, operands).check(honest(operands.problem()));
        EXPECT_EQ(verdict.failure, "")
            << name_of(init) << shape.M << "x" << shape.N << "x" << shape.K;
        const bool exact = init == Init::zeros || (init == Init::integers && terms.alpha != 0.3f);
        EXPECT_EQ(verdict.exact, exact);
        EXPECT_EQ(verdict.errors.has_value(), !exact);
        if (!verdict.errors) continue;
        EXPECT_LE(verdict.errors->rms, verdict.errors->max);
        EXPECT_LE(verdict.errors->max, 2 * std::sqrt(shape.K) + 4);
      }
}

// Halves of products of small integers are exact, so that nothing errs that was not disturbed. Where
// such a half is a power of two, changes of 2^-22 and 2^-23 of it are representable: 4 and 2 u.
TEST_F(VerifyTest, ErrorsAreInTheUnitOfTheBoundOfTheirElement) {
  Operands operands(*backend_, {5, 7, 1}, Init::integers, {.alpha = 0.5f});
  Verifier verifier(*backend_, operands);
  const std::optional<Errors> none = verifier.check(honest(operands.problem())).errors;
  ASSERT_TRUE(none);
  EXPECT_EQ(none->max, 0);
  EXPECT_EQ(none->rms, 0);

  int disturbed = 0, not_zero = 0;
  const auto disturb = [&](const Problem& p) {
    for (float& c : std::span(p.C, 5 * 7)) {
      if (c == 0) continue;
      ++not_zero;
      int exponent = 0;
      if (std::fabs(std::frexp(c, &exponent)) != 0.5f || disturbed == 2) continue;
      c *= ++disturbed == 1 ? 1 + 0x1p-22f : 1 - 0x1p-23f;
    }
  };
  const Verdict verdict = verifier.check(spoiled(operands.problem(), disturb));
  EXPECT_EQ(verdict.failure, "");
  ASSERT_EQ(disturbed, 2);
  ASSERT_TRUE(verdict.errors);
  EXPECT_DOUBLE_EQ(verdict.errors->max, 4);
  EXPECT_DOUBLE_EQ(verdict.errors->rms, std::sqrt((4. * 4 + 2. * 2) / not_zero));
}

TEST_F(VerifyTest, AWrongResultHasNoErrors) {
  Operands operands(*backend_, shape_, Init::normal);
  const auto sabotage = [](const Problem& p) { p.C[0] = std::numeric_limits<float>::quiet_NaN(); };
  EXPECT_FALSE(Verifier(*backend_, operands).check(spoiled(operands.problem(), sabotage)).errors);
}

TEST_F(VerifyTest, AnEmptyKernelIsSeen) {
  Operands operands(*backend_, shape_, Init::integers);
  Verifier verifier(*backend_, operands);
  EXPECT_EQ(verifier.check(honest(operands.problem())).failure, "");
  const auto nothing = [](Stream) {};
  EXPECT_TRUE(
      contains(verifier.check({nothing}).failure, "C[0,0] is the NaN that C was filled with"));
}

TEST_F(VerifyTest, TheFirstWrongElementIsNamed) {
  const std::string found = failure([](const Problem& p) {
    p.C[4 * p.ldc + 7] += 1;
    p.C[4 * p.ldc + 9] += 1;
  });
  EXPECT_TRUE(contains(found, "C[4,7] is "));
  EXPECT_TRUE(contains(found, "(2 of 391 floats wrong)"));
}

TEST_F(VerifyTest, OneRoundingInTheLastPlaceOfAnIntegerIsWrong) {
  EXPECT_NE(failure([](const Problem& p) {
              p.C[3] = std::nextafter(p.C[3], std::numeric_limits<float>::infinity());
            }),
            "");
}

TEST_F(VerifyTest, NaNAndInfinityFailUnderABoundToo) {
  for (float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (Init init : every_init)
      EXPECT_TRUE(
          contains(failure([bad](const Problem& p) { p.C[p.ldc + 2] = bad; }, init), "C[1,2] is "));
}

TEST_F(VerifyTest, AnErrorAboveTheBoundFailsAndOneBelowPasses) {
  // f(K) u (|A||B|) is below 15 * 6e-8 * 29 for |A|, |B| <= 1.
  EXPECT_NE(failure([](const Problem& p) { p.C[5] += 3e-5f; }, Init::uniform), "");
  EXPECT_EQ(failure([](const Problem& p) { p.C[5] += 1e-7f; }, Init::uniform), "");
}

TEST_F(VerifyTest, WhatLiesAroundCIsGuarded) {
  EXPECT_EQ(failure([](const Problem& p) { p.C[p.shape.M * p.ldc] = 1; }),
            "wrote outside C, from float 1 after its end");
  EXPECT_EQ(failure([](const Problem& p) { p.C[-1] = 1; }),
            "wrote outside C, from float 1 before its start");
  EXPECT_TRUE(contains(failure([](const Problem& p) { p.C[3 * p.ldc + p.shape.N] = 1; },
                               Init::integers, {.ldc = 30}),
                       "wrote into the gap after row 3 of C, at column 23"));
}

TEST_F(VerifyTest, InputsMustStayAsTheyWere) {
  EXPECT_EQ(failure([](const Problem& p) { const_cast<float*>(p.A)[2 * p.lda + 1] = 9; }),
            "wrote into A, at [2,1]");
  EXPECT_EQ(failure([](const Problem& p) { const_cast<float*>(p.B)[p.shape.K * p.ldb - 1] = 9; }),
            "wrote into B, at [28,22]");
  EXPECT_EQ(failure([](const Problem& p) { const_cast<float*>(p.B)[-2] = 9; }),
            "wrote outside B, from float 2 before its start");
}

TEST_F(VerifyTest, AKernelIsNotBlamedForTheOneBefore) {
  Operands operands(*backend_, shape_, Init::integers);
  Verifier verifier(*backend_, operands);
  const Problem p = operands.problem();
  EXPECT_NE(
      verifier.check(spoiled(p, [](const Problem& q) { const_cast<float*>(q.A)[0] = 9; })).failure,
      "");
  EXPECT_NE(verifier.check(spoiled(p, [](const Problem& q) { q.C[-1] = 9; })).failure, "");
  EXPECT_EQ(verifier.check(honest(p)).failure, "");
}

TEST_F(VerifyTest, BetaIsAppliedToTheSameCEveryTime) {
  Operands operands(*backend_, shape_, Init::integers, {.beta = 2});
  Verifier verifier(*backend_, operands);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(verifier.check(honest(operands.problem())).failure, "");
  Problem without = operands.problem();
  without.beta = 0;
  EXPECT_NE(verifier.check(honest(without)).failure, "");
}

TEST_F(VerifyTest, GapsBetweenRowsHoldNaN) {
  Operands operands(*backend_, shape_, Init::integers, {.lda = 31, .ldb = 25});
  const Problem& p = operands.problem();
  EXPECT_TRUE(std::isnan(p.A[29]) && std::isnan(p.A[30]) && !std::isnan(p.A[31]));
  EXPECT_TRUE(std::isnan(p.B[23]) && std::isnan(p.B[24]) && !std::isnan(p.B[25]));
}

TEST_F(VerifyTest, IntegersStaySmallEnoughToBeExact) {
  for (int K : {1, 1864135, 1864136, 4194304, 16777215}) {
    Operands operands(*backend_, {1, 1, K}, Init::integers);
    const Problem& p = operands.problem();
    float largest = 0;
    for (int k = 0; k < K; ++k) largest = std::max({largest, std::fabs(p.A[k]), std::fabs(p.B[k])});
    EXPECT_LT(double(largest) * largest * K, 0x1p24);
  }
  EXPECT_TRUE(integers_stay_exact(16777215, {}));
  EXPECT_FALSE(integers_stay_exact(1 << 24, {}));
  EXPECT_THROW(Operands(*backend_, {1, 1, 1 << 24}, Init::integers), Refusal);
}

TEST_F(VerifyTest, RandomOperandsHaveTheMomentsTheyClaim) {
  const auto moments = [&](Init init) {
    Operands operands(*backend_, {300, 1, 301}, init);
    double sum = 0, squares = 0;
    const int count = 300 * 301;
    for (int i = 0; i < count; ++i) {
      const double x = operands.problem().A[i];
      sum += x;
      squares += x * x;
    }
    return std::pair{sum / count, squares / count};
  };
  // Five standard errors of a mean over 90300 entries.
  EXPECT_NEAR(moments(Init::uniform).first, 0, 5 * std::sqrt(1.0 / 3 / 90300));
  EXPECT_NEAR(moments(Init::uniform).second, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / 90300));
  EXPECT_NEAR(moments(Init::positive).first, 0.5, 5 * std::sqrt(1.0 / 12 / 90300));
  EXPECT_NEAR(moments(Init::positive).second, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / 90300));
  EXPECT_NEAR(moments(Init::normal).first, 0, 5 * std::sqrt(1.0 / 90300));
  EXPECT_NEAR(moments(Init::normal).second, 1, 5 * std::sqrt(2.0 / 90300));
  EXPECT_NEAR(moments(Init::integers).second, 4, 5 * std::sqrt(12.0 / 90300));
}

TEST_F(VerifyTest, PositiveOperandsLieBetween0And1) {
  Operands operands(*backend_, {300, 1, 301}, Init::positive);
  const auto [least, most] = std::ranges::minmax(std::span(operands.problem().A, 300 * 301));
  EXPECT_GE(least, 0);
  EXPECT_LT(least, 1e-3f);
  EXPECT_GT(most, 1 - 1e-3f);
  EXPECT_LT(most, 1);
}

TEST_F(VerifyTest, WideOperandsHaveBothSignsAndAllMagnitudesAlike) {
  Operands operands(*backend_, {300, 1, 301}, Init::wide);
  double signs = 0, sum = 0, squares = 0;
  for (const float x : std::span(operands.problem().A, 300 * 301)) {
    ASSERT_GE(std::fabs(x), 0x1p-20f);
    ASSERT_LT(std::fabs(x), 0x1p20f);
    signs += x < 0 ? -1 : 1;
    const double exponent = std::log2(std::fabs(x));
    sum += exponent;
    squares += exponent * exponent;
  }
  // Five standard errors; uniform in (-20, 20).
  const double count = 300 * 301;
  EXPECT_NEAR(signs / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(sum / count, 0, 5 * std::sqrt(400.0 / 3 / count));
  EXPECT_NEAR(squares / count, 400.0 / 3, 5 * std::sqrt(4.0 / 45 * 160000 / count));
}

TEST_F(VerifyTest, PositiveOperandsAreRefusedWhereTheirSumsDrift) {
  try {
    Operands(*backend_, {1, 1, (1 << 18) + 1}, Init::positive);
    FAIL();
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.code, Exit::unsupported);
    EXPECT_TRUE(contains(refusal.what(), "use --init uniform"));
  }
  Operands operands(*backend_, {8, 8, 1 << 18}, Init::positive);
  EXPECT_EQ(Verifier(*backend_, operands).check(honest(operands.problem())).failure, "");
}

TEST_F(VerifyTest, OperandsAreTheSameEveryTime) {
  for (Init init : {Init::integers, Init::uniform, Init::positive, Init::wide, Init::normal}) {
    Operands first(*backend_, shape_, init), second(*backend_, shape_, init);
    EXPECT_EQ(std::memcmp(first.problem().A, second.problem().A, 17 * 29 * sizeof(float)), 0);
    EXPECT_NE(std::memcmp(first.problem().A, first.problem().B, 17 * 23 * sizeof(float)), 0);
  }
}

TEST_F(VerifyTest, EachSeedIsAnotherDrawOfBothOperands) {
  for (Init init : {Init::integers, Init::uniform, Init::positive, Init::wide, Init::normal}) {
    Operands first(*backend_, shape_, init), second(*backend_, shape_, init, {}, 1);
    EXPECT_NE(std::memcmp(first.problem().A, second.problem().A, 17 * 29 * sizeof(float)), 0);
    EXPECT_NE(std::memcmp(first.problem().B, second.problem().B, 29 * 23 * sizeof(float)), 0);
    EXPECT_EQ(Verifier(*backend_, second).check(honest(second.problem())).failure, "");
  }
}

TEST_F(VerifyTest, ALeadingDimensionBelowTheColumnsIsRefused) {
  EXPECT_THROW(Operands(*backend_, shape_, Init::zeros, {.lda = 28}), Refusal);
}

TEST_F(VerifyTest, WhatDoesNotFitIsRefused) {
  try {
    Operands(*backend_, {2000000000, 2000000000, 1}, Init::integers);
    FAIL();
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.code, Exit::no_memory);
    EXPECT_TRUE(contains(refusal.what(), "choose a smaller size"));
  }
}

TEST_F(VerifyTest, OperandsInBf16AreTheSameValuesInBothForms) {
  for (Init init : {Init::integers, Init::normal, Init::wide}) {
    Operands operands(*backend_, shape_, init, {.lda = 31, .ldb = 25, .operands = Element::bf16});
    const Problem& p = operands.problem();
    const auto same = [](const float* wide, const bfloat16* narrow, int rows, int cols, int ld) {
      for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < cols; ++c)
          ASSERT_EQ(wide[r * ld + c], to_float(narrow[r * ld + c])) << r << "," << c;
        ASSERT_TRUE(std::isnan(to_float(narrow[r * ld + cols])));
      }
    };
    same(p.A, p.A16, 17, 29, 31);
    same(p.B, p.B16, 29, 23, 25);
    EXPECT_EQ(Verifier(*backend_, operands).check(honest(p)).failure, "");
  }
  EXPECT_EQ(Operands(*backend_, shape_, Init::normal).problem().A16, nullptr);
}

TEST_F(VerifyTest, OperandsInBf16AreGuardedToo) {
  const BlasTerms bf16{.operands = Element::bf16};
  const auto write = [](const bfloat16* at) { const_cast<bfloat16*>(at)->bits ^= 1; };
  EXPECT_EQ(failure([&](const Problem& p) { write(p.A16 + 2 * p.lda + 1); }, Init::normal, bf16),
            "wrote into A16, at [2,1]");
  EXPECT_EQ(failure([&](const Problem& p) { write(p.B16 - 2); }, Init::normal, bf16),
            "wrote outside B16, from BF16 2 before its start");
  EXPECT_EQ(failure([&](const Problem& p) { write(p.A16 + 17 * p.lda); }, Init::integers, bf16),
            "wrote outside A16, from BF16 1 after its end");
}

TEST(Bfloat16, RoundsToNearestTiesToEven) {
  const auto bits = [](std::uint32_t x) { return to_bfloat16(std::bit_cast<float>(x)).bits; };
  static_assert(to_bfloat16(1).bits == 0x3F80 && to_float({0x3F80}) == 1);
  EXPECT_EQ(bits(0x3F808000), 0x3F80);  // half way: to the even one, down
  EXPECT_EQ(bits(0x3F818000), 0x3F82);  // and up
  EXPECT_EQ(bits(0x3F808001), 0x3F81);
  EXPECT_EQ(bits(0x3F817FFF), 0x3F81);
  EXPECT_EQ(bits(0xBF818000), 0xBF82);
  EXPECT_EQ(bits(0x3FFFFFFF), 0x4000);  // into the next power of two
  EXPECT_EQ(bits(0x7F7F7FFF), 0x7F7F);  // the largest that stays finite
  EXPECT_EQ(bits(0x7F7F8000), 0x7F80);
  EXPECT_EQ(bits(0xFF800000), 0xFF80);
  EXPECT_EQ(bits(0x00008000), 0x0000);  // subnormal numbers round like others
  EXPECT_EQ(bits(0x00008001), 0x0001);
  EXPECT_EQ(bits(0x007FFFFF), 0x0080);
  EXPECT_EQ(bits(0x80000000), 0x8000);
  for (std::uint32_t nan : {0x7F800001u, 0xFF800001u, 0x7FC00000u, 0x7FFFFFFFu})
    EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(nan)))));
}

TEST(Bfloat16, EveryValueComesBack) {
  for (int i = 0; i < 1 << 16; ++i) {
    const bfloat16 x{static_cast<std::uint16_t>(i)};
    if (std::isnan(to_float(x))) continue;
    ASSERT_EQ(to_bfloat16(to_float(x)).bits, x.bits);
  }
}

TEST(Reference, AgreesWithAPlainLoopInEveryCornerOfItsBlocks) {
  const auto backend = open_backend(Device::cpu);
  for (Shape s : {Shape{1, 1, 1}, {3, 7, 5}, {65, 9, 257}, {130, 33, 513}, {4, 17, 0}}) {
    Operands operands(*backend, s, Init::normal, {.lda = s.K + 3, .ldb = s.N + 1});
    const Problem& p = operands.problem();
    const int row0 = s.M / 3, rows = s.M - row0;
    std::vector<double> product(rows * s.N), magnitude(product.size()), alone(product.size());
    reference_rows(p, row0, rows, product.data(), magnitude.data());
    reference_rows(p, row0, rows, alone.data(), nullptr);
    EXPECT_EQ(product, alone);
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < s.N; ++c) {
        double sum = 0, absolute = 0;
        for (int k = 0; k < s.K; ++k) {
          const double term = double(p.A[(row0 + r) * p.lda + k]) * p.B[k * p.ldb + c];
          sum += term;
          absolute += std::fabs(term);
        }
        ASSERT_NEAR(product[r * s.N + c], sum, 1e-14 * absolute);
        ASSERT_NEAR(magnitude[r * s.N + c], absolute, 1e-14 * absolute);
      }
  }
}

TEST(Peers, AreRightAndSayWhatTheyAre) {
  const auto backend = open_backend(Device::cpu);
  for (const char* name : {"openblas", "blis", "mkl", "mkl-bf16", "onednn-bf16", "openblas-bf16"}) {
    std::vector<Kernel> found;
    try {
      found = find_peers(Device::cpu, {name, "none", name}, 2, Element::bf16);
    } catch (const Refusal& refusal) {
      EXPECT_EQ(refusal.code, Exit::unsupported);
      EXPECT_TRUE(contains(refusal.what(), "install"));
      continue;
    }
    ASSERT_EQ(found.size(), 1u);
    EXPECT_TRUE(contains(found[0].name, "2 threads"));
    for (Shape shape : {Shape{0, 3, 2}, {3, 2, 0}, {35, 79, 19}, {100, 100, 100}})
      for (BlasTerms terms :
           {BlasTerms{}, BlasTerms{.lda = 101, .ldb = 102, .ldc = 103, .alpha = 2, .beta = -1}}) {
        terms.operands = Element::bf16;
        Operands operands(*backend, shape, Init::integers, terms);
        Verifier verifier(*backend, operands);
        try {
          EXPECT_EQ(verifier.check(found[0].prepare(operands.problem())).failure, "")
              << found[0].name;
        } catch (const Refusal& refusal) {
          EXPECT_TRUE(contains(refusal.what(), "does not multiply BF16 on this CPU"));
        }
      }
  }
}

TEST(Peers, AreNoneWhereNoneAreAskedFor) {
  EXPECT_TRUE(find_peers(Device::cpu, {"none"}, 1).empty());
  EXPECT_TRUE(find_peers(Device::emulator, {}, 1).empty());
  EXPECT_THROW(find_peers(Device::cpu, {"cublas"}, 1), Refusal);
  EXPECT_THROW(find_peers(Device::cpu, {"cublas"}, 1, Element::bf16), Refusal);
}

TEST(Peers, InBf16ExistOnlyWhereOperandsAre) {
  const auto refusal = [](Element operands) {
    try {
      find_peers(Device::cpu, {"nobody"}, 1, operands);
    } catch (const Refusal& refusal) {
      EXPECT_EQ(refusal.code, Exit::bad_usage);
      return std::string(refusal.what());
    }
    return std::string();
  };
  EXPECT_TRUE(contains(refusal(Element::bf16), "mkl-bf16"));
  EXPECT_TRUE(contains(refusal(Element::fp32), "openblas, blis, mkl, none"));
  for (const Kernel& usual : find_peers(Device::cpu, {}, 1, Element::bf16))
    EXPECT_TRUE(contains(usual.name, "BF16"));
  for (const Kernel& usual : find_peers(Device::cpu, {}, 1))
    EXPECT_EQ(usual.name.find("BF16"), std::string::npos);
}

TEST(OpenBackend, SaysWhatIsMissing) {
  try {
    open_backend(Device::gpu);
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.code, Exit::no_device);
    EXPECT_TRUE(contains(refusal.what(), "emulator"));
  }
}

}  // namespace
}  // namespace gemm
