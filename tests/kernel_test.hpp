// What tests of every kernel on every device share: how one is registered, and where tiles end.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <memory>
#include <string>
#include <vector>

#include "common/backend.hpp"
#include "common/error.hpp"
#include "common/gemm.hpp"
#include "common/options.hpp"

namespace gemm {

/// A test of one kernel; skipped, with the reason, where its device does not answer.
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
    // A shape that no kernel refuses for its size.
    if (constexpr Shape usual{64, 64, 64}; !supports(usual))
      GTEST_SKIP() << kernel_.supports(usual);
  }

  bool supports(Shape shape) const { return !kernel_.supports || kernel_.supports(shape).empty(); }

  // What a kernel on the emulator may take, in FMAs, so that the whole suite stays a matter of
  // minutes.
  bool takes_too_long(Shape shape) const {
    constexpr double emulated_work = 5e6;
    return step_.device == Device::emulator && double(shape.M) * shape.N * shape.K > emulated_work;
  }

  const Step& step_;
  const Kernel& kernel_;
  std::unique_ptr<Backend> backend_;
};

inline std::string text(Shape s) { return fmt::format("{}x{}x{}", s.M, s.N, s.K); }

/// 0, 1, 2, 3, 5 and the sizes around a tile of T; a step without tiles is tried around a warp.
inline std::vector<int> edges(int T) {
  if (T == 0) T = 32;
  return {0, 1, 2, 3, 5, T - 1, T, T + 1, 2 * T + 3};
}

/// "128x128x8, 8x8 per thread" -> "128x128x8_8x8_per_thread"
inline std::string identifier(const std::string& name) {
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

/// Registers a `Test` of a kernel as "step/device[_aspect].kernel[_detail]".
template <typename Test, typename... Arguments>
void register_case(const Step& step, const Kernel& kernel, const std::string& aspect,
                   const std::string& detail, Arguments... arguments) {
  const auto joined = [](std::string name, const std::string& more) {
    return more.empty() ? name : name + "_" + more;
  };
  testing::RegisterTest(joined(step.name + "/" + name_of(step.device), aspect).c_str(),
                        joined(identifier(kernel.name), detail).c_str(), nullptr, nullptr, __FILE__,
                        __LINE__, [&step, &kernel, arguments...]() -> KernelTest* {
                          return new Test(step, kernel, arguments...);
                        });
}

}  // namespace gemm
