#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "common/model/cache.hpp"
#include "common/model/cache_simulator.hpp"

namespace gemm {
namespace {

constexpr Shape cube(int n) { return {n, n, n}; }
constexpr double floats_per_line = 16;

TEST(PanelBlocks, TakeThreeEighthsOfTheirCache) {
  EXPECT_EQ(panel_depth(48 << 10, 6), 768);
  EXPECT_EQ(panel_depth(32 << 10, 6), 512);
  EXPECT_EQ(panel_block_width(2 << 20, 768, 64), 256);
  EXPECT_EQ(panel_block_width(512 << 10, 512, 16), 96);
  EXPECT_EQ(panel_depth(100, 6), 16);
  EXPECT_EQ(panel_block_width(100, 512, 16), 16);
}

TEST(BestSquareTile, ThreeTilesFitAndThreeLargerOnesDoNot) {
  EXPECT_EQ(best_square_tile(48 * 1024), 64);
  EXPECT_EQ(best_square_tile(32 * 1024), 48);
  EXPECT_EQ(best_square_tile(512 * 1024), 208);
  for (std::int64_t bytes : {16 << 10, 32 << 10, 48 << 10, 1 << 20}) {
    const std::int64_t T = best_square_tile(bytes);
    EXPECT_LE(3 * T * T * 4, bytes);
    EXPECT_GT(3 * (T + 16) * (T + 16) * 4, bytes);
  }
}

TEST(BestSquareTile, IsNeverShorterThanALine) { EXPECT_EQ(best_square_tile(1024), 16); }

TEST(SquareTiling, DoublingTHalvesTheTrafficFromMemory) {
  const Cache cache{32 << 10};
  const double C = 2 * 1024.0 * 1024 / floats_per_line;
  const double small = square_tiling_misses(cube(1024), 16, cache) - C;
  const double large = square_tiling_misses(cube(1024), 32, cache) - C;
  EXPECT_DOUBLE_EQ(small, 2 * large);
  EXPECT_DOUBLE_EQ(small, 2 * 1024.0 * 1024 * 1024 / (floats_per_line * 16));
  EXPECT_DOUBLE_EQ(fmas_per_load(64), 2 * fmas_per_load(32));
}

TEST(Naive, HasThreeRegimes) {
  const double n = 1000;
  EXPECT_LT(naive_misses(cube(1000), {8 << 20}), 3 * n * n / floats_per_line * 1.01);
  EXPECT_NEAR(naive_misses(cube(1000), {512 << 10}) / (n * n * n / floats_per_line), 1, 0.01);
  EXPECT_NEAR(naive_misses(cube(1000), {32 << 10}) / (n * n * n), 1, 0.07);
}

TEST(Recursion, LeavesTileAnExtent) {
  for (int leaf : {16, 32, 64})
    for (int n : {0, 1, 15, 16, 17, 33, 64, 65, 100, 1000, 1040}) {
      const std::int64_t leaves = recursion_leaves(n, leaf);
      EXPECT_GE(leaves * leaf, n);
      if (n > leaf) {
        const int half = recursion_half(n);
        EXPECT_EQ(half % 16, 0);
        EXPECT_GT(half, 0);
        EXPECT_LT(half, n);
      }
    }
}

TEST(Recursion, FetchesLessFromALargerCache) {
  const Shape s = cube(1024);
  const double small = recursive_misses(s, 32, {32 << 10});
  const double large = recursive_misses(s, 32, {4 * (32 << 10)});
  EXPECT_NEAR(small / large, 2, 0.35);
}

TEST(Misses, OfNothingAreNone) {
  for (Shape s : {Shape{0, 3, 4}, Shape{3, 0, 4}}) {
    EXPECT_EQ(naive_misses(s, {1024}), 0);
    EXPECT_EQ(loop_order_misses(s, {1024}), 0);
    EXPECT_EQ(square_tiling_misses(s, 16, {1024}), 0);
    EXPECT_EQ(recursive_misses(s, 32, {1024}), 0);
  }
}

TEST(CacheSimulator, EvictsTheLeastRecentlyUsedLine) {
  CacheSimulator cache(std::vector<Cache>{{.bytes = 2 * 64}});
  for (int line : {0, 1, 0, 2, 0, 1}) cache.access(64 * line, 4);
  EXPECT_EQ(cache.misses(0), 4);  // 0 1 . 2 . 1: line 2 took the place of 1, not of 0
  EXPECT_EQ(cache.accesses(), 6);
}

TEST(CacheSimulator, LinesCompeteWithinTheirSet) {
  CacheSimulator direct(std::vector<Cache>{{.bytes = 4 * 64, .line_bytes = 64, .ways = 1}});
  for (int line : {0, 4, 0, 4, 1}) direct.access(64 * line, 4);
  EXPECT_EQ(direct.misses(0), 5);
  CacheSimulator two_ways(std::vector<Cache>{{.bytes = 4 * 64, .line_bytes = 64, .ways = 2}});
  for (int line : {0, 4, 0, 4, 1}) two_ways.access(64 * line, 4);
  EXPECT_EQ(two_ways.misses(0), 3);
}

TEST(CacheSimulator, AnAccessMayCrossLines) {
  CacheSimulator cache(std::vector<Cache>{{.bytes = 4 * 64}});
  cache.access(60, 4);
  EXPECT_EQ(cache.misses(0), 1);
  cache.access(60, 8);
  EXPECT_EQ(cache.misses(0), 2);
}

TEST(CacheSimulator, TheSecondLevelSeesWhatTheFirstMisses) {
  CacheSimulator cache(std::vector<Cache>{{.bytes = 64}, {.bytes = 2 * 64}});
  for (int line : {0, 0, 1, 0, 1, 2}) cache.access(64 * line, 4);
  EXPECT_EQ(cache.misses(0), 5);
  EXPECT_EQ(cache.misses(1), 3);
}

TEST(CacheSimulator, StreamingMissesOncePerLine) {
  CacheSimulator cache(std::vector<Cache>{{.bytes = 32 << 10, .line_bytes = 64, .ways = 8}});
  for (int pass = 0; pass < 2; ++pass)
    for (int i = 0; i < 1 << 16; ++i) cache.access(4 * i, 4);
  EXPECT_EQ(cache.misses(0), 2 * (1 << 16) / 16);
}

TEST(CacheSimulator, RefusesImpossibleGeometry) {
  const std::vector<Cache> impossible[] = {
      {{.bytes = 1024, .line_bytes = 48}},
      {{.bytes = 3 * 64, .line_bytes = 64, .ways = 1}},
      {{.bytes = 1024, .line_bytes = 64}, {.bytes = 1024, .line_bytes = 32}},
      {{.bytes = 0}}};
  for (const auto& caches : impossible) EXPECT_THROW(CacheSimulator{caches}, std::invalid_argument);
}

}  // namespace
}  // namespace gemm
