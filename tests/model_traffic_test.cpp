#include <gtest/gtest.h>

#include "common/model/traffic.hpp"

namespace gemm {
namespace {

// Walks the blocks, slices and threads of a tiled kernel and counts one float at a time.
Traffic walked(Shape s, Tile t) {
  std::int64_t loaded = 0, stored = 0, shared_loaded = 0, shared_stored = 0;
  for (int row0 = 0; row0 < s.M; row0 += t.BM)
    for (int col0 = 0; col0 < s.N; col0 += t.BN) {
      for (int k0 = 0; k0 < s.K; k0 += t.BK) {
        for (int r = 0; r < t.BM; ++r)
          for (int k = 0; k < t.BK; ++k, ++shared_stored) loaded += row0 + r < s.M && k0 + k < s.K;
        for (int k = 0; k < t.BK; ++k)
          for (int c = 0; c < t.BN; ++c, ++shared_stored) loaded += k0 + k < s.K && col0 + c < s.N;
        for (int thread = 0; thread < t.threads(); ++thread)
          for (int k = 0; k < t.BK; ++k) shared_loaded += t.TM + t.TN;
      }
      for (int r = 0; r < t.BM; ++r)
        for (int c = 0; c < t.BN; ++c) stored += row0 + r < s.M && col0 + c < s.N;
    }
  return {4 * loaded, 4 * stored, 4 * shared_loaded, 4 * shared_stored};
}

TEST(TiledTraffic, IsWhatALoopOverTilesCounts) {
  for (Tile t : {Tile{.BM = 16, .BN = 16, .BK = 16}, Tile{.BM = 32, .BN = 16, .BK = 8, .TM = 4},
                 Tile{.BM = 32, .BN = 64, .BK = 16, .TM = 8, .TN = 4}})
    for (Shape s : {Shape{0, 3, 5},
                    {3, 0, 5},
                    {3, 5, 0},
                    {1, 1, 1},
                    {35, 79, 19},
                    {33, 32, 32},
                    {64, 64, 64},
                    {127, 255, 63}})
      EXPECT_EQ(tiled_traffic(s, t), walked(s, t)) << s.M << "x" << s.N << "x" << s.K;
}

TEST(TiledTraffic, SurvivesMoreThanTwoToTheThirtyFirst) {
  const Traffic traffic = tiled_traffic({46341, 46341, 1}, {.BM = 32, .BN = 32, .BK = 32});
  EXPECT_EQ(traffic.global_stored, std::int64_t{4} * 46341 * 46341);
}

TEST(CompulsoryBytes, AreEachOperandOnce) {
  EXPECT_EQ(compulsory_bytes({2, 3, 5}), 4 * (10 + 15 + 6));
  EXPECT_EQ(compulsory_bytes({2, 3, 5}, Element::bf16), 2 * (10 + 15) + 4 * 6);
  EXPECT_EQ(flops({2, 3, 5}), 60);
}

}  // namespace
}  // namespace gemm
