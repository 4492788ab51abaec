// Every kernel of every step on every device: right at every edge of its tiles, and asking for
// exactly the bytes that its model predicts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "common/backend.hpp"
#include "common/error.hpp"
#include "common/gemm.hpp"
#include "common/verify.hpp"

namespace gemm {
namespace {

// What a kernel on the emulator may take, in FMAs, so that the whole suite stays a matter of
// minutes.
constexpr double emulated_work = 5e6;

std::string text(Shape s) { return fmt::format("{}x{}x{}", s.M, s.N, s.K); }

// 0, 1, 2, 3, 5 and the sizes around a tile of T; a step without tiles is tried around a warp.
std::vector<int> edges(int T) {
  if (T == 0) T = 32;
  return {0, 1, 2, 3, 5, T - 1, T, T + 1, 2 * T + 3};
}

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

class KernelTest : public testing::Test {
 public:
  KernelTest(const Step& step, const Kernel& kernel) : step_(step), kernel_(kernel) {}

 protected:
  void SetUp() override {
    try {
      backend_ = open_backend(step_.device);
    } catch (const Refusal& refusal) {
      GTEST_SKIP() << refusal.what();
    }
    if (backend_->compute_capability() < step_.min_compute_capability)
      GTEST_SKIP() << "needs sm_" << step_.min_compute_capability << ", this is "
                   << backend_->name();
  }

  void expect_right(Shape shape, Init init) {
    SCOPED_TRACE(text(shape) + ", " + name_of(init));
    if (kernel_.supports && !kernel_.supports(shape).empty()) return;
    Operands operands(*backend_, shape, init);
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

  const Step& step_;
  const Kernel& kernel_;
  std::unique_ptr<Backend> backend_;
};

class EdgeTest : public KernelTest {
  using KernelTest::KernelTest;

  void TestBody() override {
    for (Shape shape : shapes(kernel_.tile)) {
      const double work = double(shape.M) * shape.N * shape.K;
      if (step_.device == Device::emulator && work > emulated_work) continue;
      expect_right(shape, Init::integers);
    }
    expect_right({35, 79, 19}, Init::normal);
    expect_right({100, 100, 100}, Init::uniform);
  }
};

// Index arithmetic beyond 2^31 elements, and more tiles than a grid takes in y.
class LargeTest : public KernelTest {
 public:
  LargeTest(const Step& step, const Kernel& kernel, Shape shape)
      : KernelTest(step, kernel), shape_(shape) {}

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

std::string name_of(Device device) {
  return device == Device::cpu ? "cpu" : device == Device::gpu ? "gpu" : "emulator";
}

// "128x128x8, 8x8 per thread" -> "128x128x8_8x8_per_thread"
std::string identifier(const std::string& name) {
  std::string result;
  for (const unsigned char c : name) {
    if (std::isalnum(c))
      result += c;
    else if (!result.empty() && result.back() != '_')
      result += '_';
  }
  while (!result.empty() && result.back() == '_') result.pop_back();
  return result;
}

template <typename Make>
void register_case(const std::string& suite, const std::string& name, Make make) {
  testing::RegisterTest(suite.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                        [make]() -> KernelTest* { return make(); });
}

void register_cases(const Step& step, const Kernel& kernel) {
  const std::string suite = step.name + "/" + name_of(step.device), name = identifier(kernel.name);
  register_case(suite, name, [&] { return new EdgeTest(step, kernel); });
  if (step.device != Device::gpu) return;
  const int tile = kernel.tile.BM;
  for (Shape shape : {Shape{46341, 46341, 1}, Shape{65535 * tile + 1, 3, 2}})
    register_case(suite + "_large", name + "_" + text(shape),
                  [&step, &kernel, shape] { return new LargeTest(step, kernel, shape); });
}

}  // namespace
}  // namespace gemm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (const gemm::Step& step : gemm::steps())
    for (const gemm::Kernel& kernel : step.kernels) gemm::register_cases(step, kernel);
  return RUN_ALL_TESTS();
}
