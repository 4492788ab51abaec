// The autotuner, on candidates with invented times.
#include "common/tune.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/candidates.hpp"
#include "common/model/shape_class.hpp"
#include "tests/contains.hpp"

namespace gemm {
namespace {

constexpr Shape small{256, 256, 256}, large{4096, 4096, 4096};

Kernel kernel(const std::string& name) {
  return {.name = name,
          .prepare = [](const Problem&) { return Run{[](Stream) {}}; },
          .traffic = [name](Shape) { return Traffic{.global_loaded = std::int64_t(name.size())}; }};
}

// A row that was proved right and took so long.
Row row(const std::string& name, Shape shape, double seconds) {
  Row row{"99_test", kernel(name), shape};
  row.exact = true;
  row.seconds = {seconds};
  return row;
}

std::vector<std::string> names(const std::vector<Row>& rows) {
  std::vector<std::string> all;
  for (const Row& row : rows) all.push_back(row.kernel.name);
  return all;
}

const Step step{.name = "99_test",
                .title = "a test",
                .device = Device::cpu,
                .kernels = {},
                .candidates = {kernel("a"), kernel("bb"), kernel("ccc")}};

class TunedFile : public testing::Test {
 protected:
  std::vector<Choice> read(const std::string& text, const std::string& device = "a device") {
    std::ofstream(path) << text;
    return read_choices(path, step, device);
  }

  std::string refusal_of(const std::string& text, const std::string& device = "a device") {
    try {
      read(text, device);
    } catch (const Refusal& refusal) {
      EXPECT_EQ(refusal.code, Exit::cannot_read);
      return refusal.what();
    }
    return "read it";
  }

  const std::string path = testing::TempDir() + "tuned.json";
};

TEST(ShapeClass, IsTheNearestSideOfASquareOfAsManyElements) {
  EXPECT_EQ(shape_class({256, 256, 1}), 256);
  EXPECT_EQ(shape_class({1000, 1000, 17}), 1024);
  EXPECT_EQ(shape_class({4096, 256, 64}), 1024);
  EXPECT_EQ(shape_class({256, 4096, 64}), 1024);
  EXPECT_EQ(shape_class({1448, 1448, 64}), 1024);  // the middle is 1448.15
  EXPECT_EQ(shape_class({1449, 1449, 64}), 2048);
}

TEST(ShapeClass, HoldsEverythingBelowTheFirstAndAboveTheLast) {
  EXPECT_EQ(shape_class({0, 7, 7}), 256);
  EXPECT_EQ(shape_class({1, 1, 1}), 256);
  EXPECT_EQ(shape_class({100000, 100000, 1}), 4096);
  EXPECT_EQ(class_name(256), "C of 256 x 256 or less");
  EXPECT_EQ(class_name(512), "C of about 512 x 512");
  EXPECT_EQ(class_name(4096), "C of 4096 x 4096 or more");
}

TEST(Choose, TakesTheFastestOfEachClass) {
  const auto choices = choose({{row("a", small, 2e-6), row("bb", small, 1e-6)},
                               {row("a", large, 1e-3), row("bb", large, 2e-3)}});
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0].shape_class, 256);
  EXPECT_EQ(choices[0].kernel, "bb");
  EXPECT_DOUBLE_EQ(choices[0].gflops, 2.0 * 256 * 256 * 256 / 1e-6 / 1e9);
  EXPECT_EQ(choices[1].shape_class, 4096);
  EXPECT_EQ(choices[1].kernel, "a");
}

TEST(Choose, GoesByTheGeometricMeanWithinAClass) {
  const Shape like_large{4000, 4000, 4096};
  const auto choices = choose({{row("a", large, 1e-3), row("bb", large, 2e-3)},
                               {row("a", like_large, 5e-3), row("bb", like_large, 1e-3)}});
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].kernel, "bb");
}

TEST(Choose, NeverTakesOneThatIsWrongRefusedUnverifiedOrAPeer) {
  Row wrong = row("wrong", large, 1e-9), refused = row("refused", large, 1e-9);
  Row unverified = row("unverified", large, 1e-9), peer = row("peer", large, 1e-9);
  Row untimed = row("untimed", large, 1e-9), too_fast = row("too fast", large, 1e-9);
  wrong.fail(Exit::wrong_result, "C(0, 0) is 1 and not 2");
  refused.skip(Exit::unsupported, "needs 96 KiB of shared memory, 48 at most");
  unverified.exact = false;
  peer.step = peer_step;
  untimed.seconds = {};
  too_fast.fail(Exit::impossible_rate, "above the peak");
  const std::vector<Row> bad = {wrong, refused, unverified, peer, untimed, too_fast};
  EXPECT_TRUE(choose({bad}).empty());

  std::vector<Row> rows = bad;
  rows.push_back(row("slow", large, 1));
  const auto choices = choose({rows});
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].kernel, "slow");
}

TEST(Choose, TrustsNoCandidateThatFailedAtAnotherShape) {
  Row wrong = row("a", large, 1e-3);
  wrong.fail(Exit::wrong_result, "C(0, 0) is 1 and not 2");
  const auto choices = choose({{row("a", small, 1e-6), row("bb", small, 2e-6)}, {wrong}});
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].kernel, "bb");
}

TEST(Choose, TakesOnlyWhatRanAtAllShapesOfTheClass) {
  Row refused = row("a", large, 1e-3);
  refused.skip(Exit::unsupported, "K must be even");
  const auto choices = choose({{row("a", large, 1e-3), row("bb", large, 2e-3)},
                               {refused, row("bb", {4000, 4000, 4001}, 2e-3)}});
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].kernel, "bb");
}

TEST(SortByRate, PutsTheFastestFirstAndThoseWithoutARateLast) {
  Row refused = row("refused", large, 1e-9);
  refused.skip(Exit::unsupported, "too large");
  std::vector<Row> rows = {refused, row("slow", large, 2), row("fast", large, 1)};
  sort_by_rate(rows);
  EXPECT_EQ(names(rows), (std::vector<std::string>{"fast", "slow", "refused"}));
}

TEST_F(TunedFile, ReadsWhatWasWritten) {
  const auto choices = read(to_json("99_test", "a device", {{256, "a", 1.5}, {4096, "bb", 2000}}));
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0].shape_class, 256);
  EXPECT_EQ(choices[0].kernel, "a");
  EXPECT_EQ(choices[0].gflops, 1.5);
  EXPECT_EQ(choices[1].kernel, "bb");
}

TEST_F(TunedFile, IsRefusedWithTheReason) {
  const std::string good = to_json("99_test", "a device", {{256, "a", 1.5}});
  EXPECT_EQ(refusal_of(good), "read it");
  for (const char* broken : {"", "{", "[]", "{\"step\": 3}", "{\"step\": \"99_test\"}"})
    EXPECT_TRUE(contains(refusal_of(broken), "is not a file that --tune wrote")) << broken;
  EXPECT_TRUE(contains(refusal_of(good, "another"), "was tuned on a device, this is another"));
  EXPECT_TRUE(contains(refusal_of(to_json("98_other", "a device", {})), "belongs to 98_other"));
  EXPECT_TRUE(contains(refusal_of(to_json("99_test", "a device", {{256, "d", 1}})),
                       "99_test has no candidate 'd'"));
  std::filesystem::remove(path);
  EXPECT_THROW(read_choices(path, step, "a device"), Refusal);
}

TEST(TunedRow, DispatchesByClass) {
  const Kernel tuned = tuned_kernel(step, {{256, "a", 1}, {4096, "ccc", 1}});
  EXPECT_EQ(tuned.supports(small), "");
  EXPECT_EQ(tuned.traffic(small).global_loaded, 1);
  EXPECT_EQ(tuned.traffic(large).global_loaded, 3);
  EXPECT_EQ(tuned.supports({1000, 1000, 1}),
            "no tile was chosen for C of about 1024 x 1024: --tune --size 1024");
}

constexpr Tile fits{.BM = 128, .BN = 128, .BK = 16, .TM = 8, .TN = 8};

constexpr Tile with(int BM, int BK, int TM, int TN, int blocks = 1) {
  return {.BM = BM, .BN = 128, .BK = BK, .TM = TM, .TN = TN, .blocks = blocks};
}

TEST(Candidates, ThatDoNotFitAreRefusedWithTheReason) {
  static_assert(misfit_of(fits, 2) == Misfit::none);
  EXPECT_EQ(refusal(fits, 2), "");
  EXPECT_EQ(refusal(with(256, 16, 4, 4), 2), "has 2048 threads, 1024 at most");
  EXPECT_EQ(refusal(with(128, 8, 4, 4), 2),
            "its 1024 threads cannot share the 256 and 256 loads of a slice evenly");
  EXPECT_EQ(refusal(with(256, 32, 16, 8), 2), "needs 96 KiB of shared memory, 48 at most");
  EXPECT_EQ(refusal(with(128, 16, 16, 16), 2), "needs 416 registers for a thread, 255 at most");
  EXPECT_EQ(refusal(with(128, 8, 8, 8, 2), 2), "2 x 256 threads x 136 registers > 65536");
}

constexpr std::array<Tile, 2> two = {fits, with(256, 32, 16, 8)};

TEST(Candidates, AreMadeOfTheTilesThatFit) {
  const auto kernels = candidates<two, 2>([](auto tile) {
    static_assert(tile().BK == 16, "no kernel is compiled for a tile that does not fit");
    return [](const Problem&) { return gemm::Run{}; };
  });
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].name, "128x128x16, 8x8");
  EXPECT_TRUE(kernels[0].prepare);
  EXPECT_FALSE(kernels[1].prepare);
  EXPECT_EQ(kernels[1].supports(large), "needs 96 KiB of shared memory, 48 at most");
  EXPECT_EQ(kernels[1].tile.BM, 256);
}

}  // namespace
}  // namespace gemm
