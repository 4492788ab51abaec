// What the compiler made of every kernel: nothing spilled, nothing in local memory.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<fs::path> files(const fs::path& folder, const std::string& end) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.size() > end.size() && name.substr(name.size() - end.size()) == end)
      found.push_back(entry.path());
  }
  return found;
}

// An array whose index the compiler does not know lives on the stack, like a spilled register.
TEST(CompilerReport, NothingIsSpilledOrOnTheStack) {
  const std::vector<fs::path> reports = files(GEMM_REPORTS, ".gpu.txt");
  ASSERT_FALSE(reports.empty());
  const std::regex properties(
      "Function properties for (\\S+)\\s+(\\d+) bytes stack frame, "
      "(\\d+) bytes spill stores, (\\d+) bytes spill loads");
  for (const fs::path& report : reports) {
    const std::string text = contents(report);
    int kernels = 0;
    for (std::sregex_iterator at(text.begin(), text.end(), properties), end; at != end; ++at) {
      ++kernels;
      EXPECT_EQ((*at)[2].str(), "0") << "stack frame of " << (*at)[1] << " in " << report;
      EXPECT_EQ((*at)[3].str(), "0") << "spill stores of " << (*at)[1] << " in " << report;
      EXPECT_EQ((*at)[4].str(), "0") << "spill loads of " << (*at)[1] << " in " << report;
    }
    EXPECT_GT(kernels, 0) << report;
  }
}

// C7508 to C7515: ptxas has serialised what was meant to overlap.
TEST(CompilerReport, HasNoPerformanceAdvisory) {
  for (const fs::path& report : files(GEMM_REPORTS, ".gpu.txt"))
    EXPECT_FALSE(std::regex_search(contents(report), std::regex("C75\\d\\d"))) << report;
}

// Where step 16 is compiled for 9.0, its kernels hold their sums in registers; without a body they
// would be right about nothing.
TEST(CompilerReport, KernelsOfCapability90AreMoreThanTheirNames) {
  const std::string text = contents(fs::path(GEMM_REPORTS) / "16_gpu_fp32_peak.gpu.txt");
  ASSERT_FALSE(text.empty());
  const std::regex kernel(
      "Compiling entry function '\\S*hopperI\\S*' for '(\\S+)'[^\\0]*?Used (\\d+) registers");
  std::sregex_iterator at(text.begin(), text.end(), kernel), end;
  ASSERT_NE(at, end);
  if ((*at)[1] != "sm_90a") GTEST_SKIP() << "compiled for " << (*at)[1];
  for (; at != end; ++at) EXPECT_GE(std::stoi((*at)[2]), 128);
}

// A step's file, and those in the folder of its name.
std::vector<fs::path> sources_of(const fs::path& step) {
  std::vector<fs::path> sources = {step};
  const fs::path folder = fs::path(step).replace_extension();
  if (fs::is_directory(folder))
    for (const auto& entry : fs::directory_iterator(folder)) sources.push_back(entry.path());
  return sources;
}

TEST(CompilerReport, EveryKernelStatesItsLaunchBounds) {
  const std::vector<fs::path> steps = files(GEMM_STEPS_FOLDER, ".cu");
  ASSERT_FALSE(steps.empty());
  const std::regex kernel("__global__\\s+(?:void\\s+)?(__launch_bounds__)?");
  for (const fs::path& step : steps) {
    int kernels = 0;
    for (const fs::path& source : sources_of(step)) {
      const std::string text = contents(source);
      for (std::sregex_iterator at(text.begin(), text.end(), kernel), end; at != end; ++at) {
        ++kernels;
        EXPECT_TRUE((*at)[1].matched) << source << ": a __global__ without __launch_bounds__";
      }
    }
    EXPECT_GT(kernels, 0) << step;
  }
}

}  // namespace
