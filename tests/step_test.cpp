// Every kernel of every step on every device: right at every edge of its tiles, and asking for
// exactly the bytes that its model predicts.
#include <gtest/gtest.h>

#include <vector>

#include "common/verify.hpp"
#include "tests/kernel_test.hpp"

namespace gemm {
namespace {

// All pairs of edges of M and N, of N and K, and of M and K; then shapes that fit no tile at all.
std::vector<Shape> shapes(const Tile& tile) {
  const std::vector<int> m = edges(tile.BM), n = edges(tile.BN), k = edges(tile.BK);
  std::vector<Shape> all;
  for (std::size_t i = 0; i < m.size(); ++i)
    for (std::size_t j = 0; j < n.size(); ++j)
      all.push_back({m[i], n[j], k[(i + 2 * j) % k.size()]});
  for (Shape shape :
       {Shape{35, 79, 19}, Shape{33, 32, 32}, Shape{100, 100, 100}, Shape{127, 255, 63}})
    all.push_back(shape);
  return all;
}

class StepTest : public KernelTest {
 protected:
  using KernelTest::KernelTest;

  void expect_right(Shape shape, Init init) {
    SCOPED_TRACE(text(shape) + ", " + name_of(init));
    if (!supports(shape)) return;
    Operands operands(*backend_, shape, init, {.operands = step_.operands});
    Verifier verifier(*backend_, operands);
    try {
      const Verdict verdict = verifier.check(kernel_.prepare(operands.problem()));
      EXPECT_EQ(verdict.failure, "");
      EXPECT_EQ(verdict.exact, init == Init::integers);
    } catch (const std::exception& error) {
      FAIL() << error.what();
    }
    if (const auto counts = backend_->counts()) {
      const Traffic predicted = kernel_.traffic(shape), counted = counts->requested;
      EXPECT_EQ(predicted.global_loaded, counted.global_loaded);
      EXPECT_EQ(predicted.global_stored, counted.global_stored);
      EXPECT_EQ(predicted.shared_loaded, counted.shared_loaded);
      EXPECT_EQ(predicted.shared_stored, counted.shared_stored);
    }
  }
};

class EdgeTest : public StepTest {
  using StepTest::StepTest;

  void TestBody() override {
    for (Shape shape : shapes(kernel_.tile))
      if (!takes_too_long(shape)) expect_right(shape, Init::integers);
    expect_right({35, 79, 19}, Init::normal);
    expect_right({100, 100, 100}, Init::uniform);
  }
};

// A candidate is checked again whenever it is tuned: here it has to be right at the edges of two
// tiles in each direction.
class CandidateTest : public StepTest {
  using StepTest::StepTest;

  void TestBody() override {
    const Tile& T = kernel_.tile;
    expect_right({T.BM + 1, T.BN + 5, 2 * T.BK + 3}, Init::integers);
  }
};

// Index arithmetic beyond 2^31 elements, and more tiles than a grid takes in y.
class LargeTest : public StepTest {
 public:
  LargeTest(const Step& step, const Kernel& kernel, Shape shape)
      : StepTest(step, kernel), shape_(shape) {}

 private:
  void TestBody() override {
    try {
      expect_right(shape_, Init::integers);
    } catch (const Refusal& refusal) {
      GTEST_SKIP() << refusal.what();
    }
  }

  Shape shape_;
};

void register_cases(const Step& step) {
  for (const Kernel& kernel : step.candidates)
    if (kernel.prepare) register_case<CandidateTest>(step, kernel, "", "candidate");
  for (const Kernel& kernel : step.kernels) {
    register_case<EdgeTest>(step, kernel, "", "");
    if (step.device != Device::gpu) continue;
    const int tile = kernel.tile.BM;
    for (Shape shape : {Shape{46341, 46341, 1}, Shape{65535 * tile + 1, 3, 2}})
      register_case<LargeTest>(step, kernel, "large", text(shape), shape);
  }
}

}  // namespace
}  // namespace gemm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (const gemm::Step& step : gemm::steps()) gemm::register_cases(step);
  return RUN_ALL_TESTS();
}
