// The schedule of step 16, and which kernel it takes for which shape.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "steps/16_gpu_fp32_peak/choice.hpp"
#include "steps/16_gpu_fp32_peak/schedule.hpp"

namespace gemm {
namespace {

constexpr Tile tile{.BM = 256, .BN = 128, .BK = 32};

// Every slice of every tile is multiplied once; and of a tile that is cut, what the blocks from the
// first one on bring is all that the last one does not do itself.
void expect_all_work_done_once(const Schedule& schedule) {
  std::map<int, std::vector<int>> done;
  std::map<int, std::map<int, Piece>> unfinished;  // by tile, then by block
  std::map<int, std::pair<int, Piece>> finishing;
  for (int block = 0; block < schedule.blocks; ++block) {
    Pieces pieces(schedule, block);
    Piece piece;
    int brought = 0;
    while (pieces.next(piece)) {
      ASSERT_LT(piece.slice0, piece.slice1);
      done[piece.tile].resize(schedule.slices);
      for (int s = piece.slice0; s < piece.slice1; ++s) ++done[piece.tile][s];
      if (piece.slice1 < schedule.slices) {
        unfinished[piece.tile][block] = piece;
        ++brought;
      } else {
        EXPECT_TRUE(finishing.try_emplace(piece.tile, block, piece).second);
      }
    }
    EXPECT_LE(brought, 1) << "a block has room for the sums of one tile";
  }
  ASSERT_EQ(done.size(), static_cast<std::size_t>(schedule.tiles()));
  for (const auto& [number, slices] : done)
    EXPECT_EQ(slices, std::vector<int>(schedule.slices, 1)) << "tile " << number;

  for (const auto& [number, owner] : finishing) {
    const auto& [block, piece] = owner;
    if (piece.slice0 == 0) continue;
    int next = 0;
    for (int other = first_block_of(schedule, number, block - 1); other < block; ++other) {
      if (schedule.share(other) == schedule.share(other + 1)) continue;
      ASSERT_TRUE(unfinished[number].contains(other));
      EXPECT_EQ(unfinished[number][other].slice0, next);
      next = unfinished[number][other].slice1;
    }
    EXPECT_EQ(next, piece.slice0);
  }
}

TEST(Schedule, MultipliesEverySliceOnce) {
  for (const Shape shape : {Shape{256, 128, 32}, Shape{1, 1, 1}, Shape{1024, 1024, 1024},
                            Shape{1023, 1025, 1027}, Shape{4096, 4096, 4096}, Shape{257, 129, 4000},
                            Shape{8192, 128, 8192}, Shape{3000, 5000, 70}})
    for (const int blocks : {1, 2, 7, 132, 264})
      for (const bool cut : {false, true})
        expect_all_work_done_once(schedule_of(shape, tile, blocks, cut));
}

// A block of a cluster has one piece, and all pieces of a tile are those of its cluster.
TEST(Schedule, GivesEveryBlockOfAClusterAPieceOfItsTile) {
  for (const Shape shape :
       {Shape{256, 128, 64}, Shape{1, 1, 65}, Shape{1023, 1025, 1027}, Shape{300, 300, 4000}})
    for (const int cluster : {1, 2}) {
      const Schedule schedule = schedule_of_clusters(shape, tile, cluster);
      ASSERT_EQ(schedule.blocks, schedule.tiles() * cluster);
      expect_all_work_done_once(schedule);
      for (int block = 0; block < schedule.blocks; ++block) {
        Pieces pieces(schedule, block);
        Piece piece;
        ASSERT_TRUE(pieces.next(piece));
        EXPECT_EQ(piece.tile, block / cluster);
        EXPECT_FALSE(pieces.next(piece));
      }
    }
}

TEST(Schedule, FormsClustersOfTwoWhereTheyFit) {
  EXPECT_EQ(blocks_of_cluster({1024, 1024, 1024}, tile, 132), 2);
  EXPECT_EQ(blocks_of_cluster({2048, 1024, 1024}, tile, 128), 2);
  EXPECT_EQ(blocks_of_cluster({2048, 1024, 1024}, tile, 127), 1);
  EXPECT_EQ(blocks_of_cluster({1024, 1024, 32}, tile, 132), 1) << "one slice";
}

// 512 tiles of 4096^3: three rounds of 132, and 116 tiles that are cut.
TEST(Schedule, CutsWhatIsLeftOfWholeRounds) {
  const Schedule cut = schedule_of({4096, 4096, 4096}, tile, 132, true);
  EXPECT_EQ(cut.tiles(), 512);
  EXPECT_EQ(cut.whole, 396);
  EXPECT_EQ(schedule_of({4096, 4096, 4096}, tile, 132, false).whole, 512);
}

// What the producers bring is what the other warps multiply, in the same order, and a slice more.
TEST(Schedule, BringsTheSlicesOfItsPieces) {
  for (const Shape shape : {Shape{1, 1, 1}, Shape{1023, 1025, 1027}, Shape{3000, 5000, 70}})
    for (const int blocks : {1, 7, 132}) {
      const Schedule schedule = schedule_of(shape, tile, blocks, true);
      for (int block = 0; block < blocks; ++block) {
        Pieces pieces(schedule, block);
        Slices slices(schedule, block);
        Piece piece;
        Slice slice;
        while (pieces.next(piece)) {
          const TilePlace at = place_of_tile(schedule, piece.tile);
          for (int s = piece.slice0; s < piece.slice1; ++s) {
            ASSERT_TRUE(slices.next(slice));
            EXPECT_EQ(slice.number, s);
            EXPECT_EQ(slice.at.row, at.row);
            EXPECT_EQ(slice.at.col, at.col);
          }
        }
        ASSERT_TRUE(slices.next(slice)) << "one that is read ahead";
        EXPECT_EQ(slice.number, schedule.slices) << "past the end of K";
        EXPECT_FALSE(slices.next(slice));
      }
    }
}

TEST(Schedule, DoesNotCutWhatItCannotCount) {
  const Shape shape{256 * 131, 128, 2147483647};
  EXPECT_EQ(schedule_of(shape, tile, 132, true).whole, 131);
  EXPECT_EQ(schedule_of({256 * 3, 128, 2147483647}, tile, 132, true).whole, 0);
}

TEST(Schedule, PlacesEveryTileOnce) {
  const Schedule schedule = schedule_of({5000, 3000, 32}, tile, 132, true);
  std::map<std::pair<int, int>, int> seen;
  for (int t = 0; t < schedule.tiles(); ++t) {
    const TilePlace place = place_of_tile(schedule, t);
    EXPECT_LT(place.row, schedule.tiles_m);
    EXPECT_LT(place.col, schedule.tiles_n);
    ++seen[{place.row, place.col}];
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(schedule.tiles()));
}

TEST(Choice, TakesTheKernelThatFillsTheGpu) {
  const auto on_h200 = [](Shape s) { return plan_for(s, 132, true); };
  EXPECT_EQ(on_h200({512, 512, 512}), Plan::portable_small);
  EXPECT_EQ(on_h200({64, 64, 65536}), Plan::portable_small);
  EXPECT_EQ(on_h200({768, 768, 768}), Plan::portable_large);
  EXPECT_EQ(on_h200({1024, 1024, 1024}), Plan::square);
  EXPECT_EQ(on_h200({1023, 1025, 1027}), Plan::square);
  EXPECT_EQ(on_h200({2048, 2048, 2048}), Plan::wide);
  EXPECT_EQ(on_h200({4096, 4096, 64}), Plan::wide);
  EXPECT_EQ(on_h200({8192, 384, 4096}), Plan::square) << "a wide tile would be half full";
  EXPECT_EQ(on_h200({8192, 4224, 4096}), Plan::wide) << "one of 17";
  EXPECT_EQ(on_h200({4096, 4096, 4096}), Plan::wide);
  EXPECT_EQ(on_h200({4096, 4096, 0}), Plan::portable_large);
  EXPECT_EQ(plan_for({4096, 4096, 4096}, 108, false), Plan::portable_large);
  EXPECT_EQ(plan_for({512, 512, 512}, 108, false), Plan::portable_small);
}

TEST(Choice, LeavesAFewColumnsApart) {
  EXPECT_EQ(columns_apart(4097, 128), 1);
  EXPECT_EQ(columns_apart(4100, 128), 4);
  EXPECT_EQ(columns_apart(4101, 128), 0);
  EXPECT_EQ(columns_apart(4096, 128), 0);
  EXPECT_EQ(columns_apart(3, 128), 0);
}

}  // namespace
}  // namespace gemm
