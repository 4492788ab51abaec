#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "common/gemm.hpp"

namespace gemm {
namespace {

// The names that CMake built, in course order.
std::vector<std::string> built_steps() {
  std::vector<std::string> names;
  std::istringstream list(GEMM_STEP_LIST);
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  return names;
}

std::vector<std::string> registered_steps() {
  std::vector<std::string> names;
  for (const Step& step : steps())
    if (names.empty() || names.back() != step.name) names.push_back(step.name);
  return names;
}

void expect_different(std::vector<std::string> names, const std::string& step) {
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end()) << step;
}

TEST(Registry, HoldsEveryStepThatWasBuilt) { EXPECT_EQ(registered_steps(), built_steps()); }

TEST(Registry, IsSortedByNameThenDevice) {
  EXPECT_TRUE(std::is_sorted(steps().begin(), steps().end(), [](const Step& a, const Step& b) {
    return std::tie(a.name, a.device) < std::tie(b.name, b.device);
  }));
}

TEST(Registry, RefusesAStepThatIsThereAlready) {
  const std::size_t before = steps().size();
  ASSERT_GT(before, 0u);
  const Step again = steps().front();
  EXPECT_THROW(Register{again}, std::logic_error);
  EXPECT_EQ(steps().size(), before);
}

TEST(Registry, PutsANewStepInItsPlace) {
  Step first = steps().back();
  first.name = "00_first";
  const Register added{first};
  EXPECT_EQ(steps().front().name, "00_first");
}

TEST(Registry, NamesEachKernelOfAStepOnce) {
  for (const Step& step : steps()) {
    EXPECT_FALSE(step.kernels.empty()) << step.name;
    std::vector<std::string> names;
    for (const Kernel& kernel : step.kernels) {
      EXPECT_TRUE(kernel.prepare) << step.name << " " << kernel.name;
      EXPECT_TRUE(kernel.traffic) << step.name << " " << kernel.name;
      names.push_back(kernel.name);
    }
    expect_different(names, step.name);
  }
}

TEST(Registry, EveryCandidateIsAKernelOrSaysWhyNot) {
  for (const Step& step : steps()) {
    std::vector<std::string> names;
    for (const Kernel& kernel : step.candidates) {
      const std::string reason = kernel.supports ? kernel.supports({64, 64, 64}) : "";
      EXPECT_NE(static_cast<bool>(kernel.prepare), !reason.empty()) << kernel.name << reason;
      EXPECT_NE(static_cast<bool>(kernel.traffic), !reason.empty()) << kernel.name << reason;
      names.push_back(kernel.name);
    }
    expect_different(names, step.name);
  }
}

}  // namespace
}  // namespace gemm
