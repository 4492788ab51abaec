// Step 22 where its blocks end, on tiles in plain C++, and the refusal of a CPU that has none.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "common/backend.hpp"
#include "common/verify.hpp"

namespace gemm {
namespace {

const Step& amx_step(Device device) {
  for (const Step& step : steps())
    if (step.device == device && step.name == "22_cpu_amx") return step;
  throw std::runtime_error("step 22 is not in this program");
}

// More rows, columns and terms than MC, NC or KC on a machine with small caches, and one more block
// that is not whole.
TEST(Amx, IsRightAcrossItsBlocks) {
  const auto backend = open_backend(Device::emulator);
  for (const Kernel& kernel : amx_step(Device::emulator).kernels)
    for (Shape shape :
         {Shape{33, 40, 1100}, Shape{65, 1100, 67}, Shape{1100, 65, 67}, Shape{140, 270, 200}})
      for (BlasTerms terms : {BlasTerms{}, BlasTerms{.lda = shape.K + 1,
                                           .ldb = shape.N + 3,
                                           .ldc = shape.N + 5,
                                           .alpha = -2,
                                           .beta = 3}}) {
        SCOPED_TRACE(kernel.name + " " + std::to_string(shape.M) + "x" + std::to_string(shape.N));
        terms.operands = Element::bf16;
        Operands operands(*backend, shape, Init::integers, terms);
        Verifier verifier(*backend, operands);
        EXPECT_EQ(verifier.check(kernel.prepare(operands.problem())).failure, "");
        if (terms.beta == 0) {
          EXPECT_TRUE(kernel.traffic(shape) == backend->counts()->requested);
        }
      }
}

TEST(Amx, RealsStayWithinTheBoundAcrossBlocks) {
  const auto backend = open_backend(Device::emulator);
  for (const Kernel& kernel : amx_step(Device::emulator).kernels) {
    Operands operands(*backend, {70, 90, 1100}, Init::normal,
                      {.alpha = 0.3f, .beta = 0.7f, .operands = Element::bf16});
    Verifier verifier(*backend, operands);
    EXPECT_EQ(verifier.check(kernel.prepare(operands.problem())).failure, "") << kernel.name;
  }
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
