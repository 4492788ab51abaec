// What steps 01 - 04 do, access by access, against what their models say.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/gemm.hpp"
#include "common/model/cache.hpp"
#include "common/model/cache_simulator.hpp"
#include "common/simt/emulator.hpp"

namespace gemm {
namespace {

const Step& cpu_step(const std::string& number) {
  for (const Step& step : steps())
    if (step.device == Device::emulator && step.name.starts_with(number + "_cpu_")) return step;
  throw std::runtime_error("there is no step " + number + " for the emulator");
}

const Kernel& kernel(const std::string& number, int BM = 0) {
  for (const Kernel& kernel : cpu_step(number).kernels)
    if (kernel.tile.BM == BM) return kernel;
  throw std::runtime_error("step " + number + " has no tile of " + std::to_string(BM));
}

// Runs a kernel on dense operands and hands on its accesses to them.
template <typename Sink>
void trace(const Kernel& kernel, Shape s, Sink&& sink) {
  const std::size_t M = s.M, N = s.N, K = s.K;
  std::vector<float> A(M * K, 1.0f), B(K * N, 1.0f), C(M * N);
  const simt::DeviceBuffer buffers[] = {
      {A.data(), 4 * A.size(), "A"}, {B.data(), 4 * B.size(), "B"}, {C.data(), 4 * C.size(), "C"}};
  const Run run = kernel.prepare({.shape = s,
                                  .A = A.data(),
                                  .B = B.data(),
                                  .C = C.data(),
                                  .lda = s.K,
                                  .ldb = s.N,
                                  .ldc = s.N});
  simt::trace([&] { run.start(nullptr); }, sink);
}

double simulated_misses(const Kernel& kernel, Shape s, Cache cache) {
  CacheSimulator simulator(std::vector<Cache>{cache});
  trace(kernel, s, [&](std::uint64_t at, int bytes, bool) { simulator.access(at, bytes); });
  return static_cast<double>(simulator.misses(0));
}

double simulated_over_predicted(const Kernel& kernel, Shape s, Cache cache) {
  return simulated_misses(kernel, s, cache) / kernel.misses(s, cache);
}

constexpr Cache small{8 << 10}, medium{24 << 10};

TEST(CpuSteps, TrafficIsWhatExecutionRequests) {
  for (const char* number : {"01", "02", "03", "04"})
    for (const Kernel& kernel : cpu_step(number).kernels)
      for (Shape s : {Shape{35, 79, 19},
                      {33, 32, 32},
                      {70, 65, 129},
                      {1, 130, 70},
                      {130, 1, 70},
                      {3, 5, 0},
                      {3, 0, 5},
                      {0, 3, 5},
                      {1, 1, 1}}) {
        Traffic counted;
        trace(kernel, s, [&](std::uint64_t, int bytes, bool write) {
          (write ? counted.global_stored : counted.global_loaded) += bytes;
        });
        EXPECT_EQ(counted, kernel.traffic(s))
            << number << " " << kernel.name << " " << s.M << "x" << s.N << "x" << s.K;
      }
}

TEST(CpuSteps, NaiveMissesInEachRegime) {
  EXPECT_NEAR(simulated_over_predicted(kernel("01"), {64, 144, 144}, small), 1, 0.02);
  EXPECT_NEAR(simulated_over_predicted(kernel("01"), {64, 144, 144}, medium), 1, 0.02);
  EXPECT_NEAR(simulated_over_predicted(kernel("01"), {64, 144, 144}, {128 << 10}), 1, 0.02);
}

TEST(CpuSteps, LoopOrderMissesInEachRegime) {
  EXPECT_NEAR(simulated_over_predicted(kernel("02"), {64, 144, 144}, small), 1, 0.02);
  EXPECT_NEAR(simulated_over_predicted(kernel("02"), {64, 144, 144}, {128 << 10}), 1, 0.02);
  EXPECT_NEAR(simulated_over_predicted(kernel("02"), {4, 2048, 32}, small), 1, 0.02);
}

// T up to sqrt(Z / 5) with Z in floats: 20 for the small cache, 35 for the medium one.
TEST(CpuSteps, SquareTilesMissAsPredicted) {
  EXPECT_NEAR(simulated_over_predicted(kernel("03", 16), {160, 160, 160}, small), 1, 0.02);
  EXPECT_NEAR(simulated_over_predicted(kernel("03", 16), {64, 192, 128}, small), 1, 0.02);
  EXPECT_NEAR(simulated_over_predicted(kernel("03", 32), {160, 160, 160}, medium), 1, 0.02);
  EXPECT_NEAR(simulated_over_predicted(kernel("03", 32), {96, 128, 192}, medium), 1, 0.02);
}

TEST(CpuSteps, SquareTilesThatOutgrowTheCacheFallOffACliff) {
  const Shape s{128, 128, 128};
  const double best = simulated_misses(kernel("03", 16), s, small);
  EXPECT_LT(simulated_misses(kernel("03", 32), s, small), best);
  EXPECT_GT(simulated_misses(kernel("03", 64), s, small), 4 * best);
  EXPECT_NEAR(simulated_over_predicted(kernel("03", 32), s, small), 1, 0.02);
  EXPECT_NEAR(simulated_over_predicted(kernel("03", 64), s, small), 1, 0.02);
}

TEST(CpuSteps, RecursionMissesAsPredictedWhereALeafOutgrowsTheCache) {
  EXPECT_NEAR(simulated_over_predicted(kernel("04", 32), {128, 128, 128}, small), 1, 0.02);
  EXPECT_NEAR(simulated_over_predicted(kernel("04", 64), {128, 128, 128}, small), 1, 0.02);
  EXPECT_NEAR(simulated_over_predicted(kernel("04", 128), {128, 128, 128}, medium), 1, 0.02);
}

// The prediction is a bound: some of what one block leaves behind serves the next.
TEST(CpuSteps, RecursionMissesLessThanPredictedWhereBlocksFit) {
  for (Shape s : {Shape{128, 128, 128}, {160, 160, 160}, {256, 32, 96}}) {
    const double ratio = simulated_over_predicted(kernel("04", 32), s, medium);
    EXPECT_LE(ratio, 1.02);
    EXPECT_GE(ratio, 0.75);
  }
}

// 512 floats are a power of two of bytes: the rows of a tile share a few sets of the cache.
TEST(CpuSteps, PowersOfTwoCollideInRealCaches) {
  const Cache real{.bytes = 32 << 10, .line_bytes = 64, .ways = 8};
  const Kernel tiled = kernel("03", 32);
  EXPECT_GT(simulated_over_predicted(tiled, {32, 512, 128}, real), 3);
  EXPECT_LT(simulated_over_predicted(tiled, {32, 520, 128}, real), 1.5);
  EXPECT_NEAR(simulated_over_predicted(tiled, {32, 512, 128}, {.bytes = 32 << 10}), 1, 0.05);
}

}  // namespace
}  // namespace gemm
