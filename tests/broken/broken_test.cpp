// The harness must reject every broken kernel, and say why. Where the emulator catches the fault
// while it happens, that is the rejection; elsewhere the checker finds it in the result.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/backend.hpp"
#include "common/error.hpp"
#include "common/gemm.hpp"
#include "common/verify.hpp"
#include "tests/contains.hpp"

namespace gemm {
namespace {

struct Case {
  std::string kernel;
  /// What the rejection says on a GPU and on the emulator; empty: passes.
  std::string gpu, emulator;
  Init init = Init::integers;
  BlasTerms terms{};
};

// No multiple of the kernels' tile of 32, except N, so that a row past the end of C is outside it.
constexpr Shape shape{65, 96, 97};

std::vector<Case> cases() {
  const std::string missed = "the NaN that C was filled with", wrong = "expected";
  const BlasTerms wide_a{.lda = 100}, wide_b{.ldb = 101}, wide_c{.ldc = 102},
      everything{.lda = 100, .ldb = 101, .ldc = 102, .alpha = 2, .beta = -1};
  return {
      {"none", "", ""},
      {"none", "", "", Init::uniform},
      {"none", "", "", Init::normal, everything},
      {"none", "", "", Init::integers, everything},
      {"missing barrier", wrong, "race"},
      {"dropped last k", wrong, wrong},
      {"transposed B", wrong, wrong, Init::integers, {.ldb = 97}},
      {"unwritten row", "C[64,0] is " + missed, "C[64,0] is " + missed},
      {"NaN element", "C[3,5] is nan", "C[3,5] is nan"},
      {"empty kernel", "C[0,0] is " + missed, "C[0,0] is " + missed},
      {"too many threads", "launching the kernel", "threads"},
      {"ignored lda", "C[1,0] is nan", "C[1,0] is nan", Init::integers, wide_a},
      {"ignored ldb", "is nan", "is nan", Init::integers, wide_b},
      {"ignored ldc", "gap after row 0 of C", "gap after row 0 of C", Init::integers, wide_c},
      {"ignored beta", wrong, wrong, Init::integers, everything},
      {"reads C at beta zero", "C[0,0] is nan", missed},
      {"silent TF32", wrong, wrong, Init::uniform},
      {"silent TF32", "", "", Init::integers},
      {"wrote outside C", "wrote outside C, from float 1 after its end", "out of bounds"},
      {"wrote into A", "wrote into A, at [1,2]", "wrote into A, at [1,2]"},
  };
}

const Kernel& find(Device device, const std::string& name) {
  const auto step = std::find_if(steps().begin(), steps().end(),
                                 [&](const Step& s) { return s.device == device; });
  if (step == steps().end()) throw std::logic_error("no broken kernels for this device");
  return *std::find_if(step->kernels.begin(), step->kernels.end(),
                       [&](const Kernel& kernel) { return kernel.name == name; });
}

class BrokenTest : public testing::Test {
 public:
  BrokenTest(Device device, Case broken) : device_(device), case_(std::move(broken)) {}

 private:
  // What stands between this kernel and a line in a table; empty when nothing does.
  std::string rejection(Backend& backend, Operands& operands) const {
    Verifier verifier(backend, operands);
    try {
      return verifier.check(find(device_, case_.kernel).prepare(operands.problem())).failure;
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  void TestBody() override {
    std::unique_ptr<Backend> backend;
    try {
      backend = open_backend(device_);
    } catch (const Refusal& refusal) {
      GTEST_SKIP() << refusal.what();
    }
    Operands operands(*backend, shape, case_.init, case_.terms);
    const std::string found = rejection(*backend, operands);
    const std::string& expected = device_ == Device::gpu ? case_.gpu : case_.emulator;
    if (expected.empty())
      EXPECT_EQ(found, "");
    else
      EXPECT_TRUE(contains(found, expected));
  }

  Device device_;
  Case case_;
};

// "silent_TF32_uniform"
std::string identifier(const Case& broken) {
  std::string name = broken.kernel + "_" + name_of(broken.init);
  if (broken.terms.beta != 0) name += "_beta";
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

void register_cases(Device device, const char* suite) {
  for (const Case& broken : cases())
    testing::RegisterTest(suite, identifier(broken).c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [=]() -> testing::Test* { return new BrokenTest(device, broken); });
}

}  // namespace
}  // namespace gemm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (const gemm::Step& step : gemm::steps())
    gemm::register_cases(step.device, step.device == gemm::Device::gpu ? "gpu" : "emulator");
  return RUN_ALL_TESTS();
}
