// Step 22 where its blocks end, on tiles in plain C++, and the refusal of a CPU that has none.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "common/backend.hpp"
#include "common/verify.hpp"

namespace gemm {
namespace {

const Step& amx_step(Device device) {
  for (const Step& step : steps())
    if (step.device == device && step.name == "22_cpu_amx") return step;
  throw std::runtime_error("step 22 is not in this program");
}

// Rows that only have other block sizes than the step's own.
bool of_the_sweep(const Kernel& kernel) { return kernel.name.starts_with("MC="); }

void expect_right(const Kernel& kernel, Shape shape, Init init, BlasTerms terms) {
  const auto backend = open_backend(Device::emulator);
  terms.operands = Element::bf16;
  Operands operands(*backend, shape, init, terms);
  Verifier verifier(*backend, operands);
  const std::string what = fmt::format("{}, {} x {} x {}", kernel.name, shape.M, shape.N, shape.K);
  EXPECT_EQ(verifier.check(kernel.prepare(operands.problem())).failure, "") << what;
  if (terms.alpha == 1 && terms.beta == 0) {
    EXPECT_TRUE(kernel.traffic(shape) == backend->counts()->requested) << what;
  }
}

// K is more than any KC, and odd.
TEST(Amx, IsRightAcrossBlocksOfK) {
  constexpr Shape shape{33, 40, 1101};
  for (const Kernel& kernel : amx_step(Device::emulator).kernels) {
    expect_right(kernel, shape, Init::integers, {});
    expect_right(kernel, shape, Init::integers,
                 {.lda = 1102, .ldb = 43, .ldc = 45, .alpha = -2, .beta = 3});
  }
}

// More rows or columns than MC or NC, of the step's own blocks on a machine with small caches.
TEST(Amx, IsRightAcrossBlocksOfC) {
  for (const Kernel& kernel : amx_step(Device::emulator).kernels)
    for (Shape shape : of_the_sweep(kernel) ? std::vector<Shape>{{35, 1100, 33}, {600, 33, 35}}
                                            : std::vector<Shape>{{270, 40, 340}, {40, 290, 340}})
      expect_right(kernel, shape, Init::integers, {});
}

TEST(Amx, RealsStayWithinTheBoundAcrossBlocks) {
  for (const Kernel& kernel : amx_step(Device::emulator).kernels)
    if (!of_the_sweep(kernel))
      expect_right(kernel, {40, 35, 1101}, Init::normal, {.alpha = 0.3f, .beta = 0.7f});
}

TEST(Amx, ACpuWithoutItRefusesEveryRow) {
  for (const Kernel& kernel : amx_step(Device::cpu).kernels) {
    ASSERT_TRUE(kernel.supports);
    const std::string reason = kernel.supports({64, 64, 64});
    if (reason.empty()) GTEST_SKIP() << "this CPU has AMX";
    EXPECT_TRUE(reason.find("AMX") != std::string::npos) << reason;
  }
}

}  // namespace
}  // namespace gemm
