// Timing and reporting, on a device whose times are made up.
#include "common/timing.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/report.hpp"
#include "tests/contains.hpp"

namespace gemm {
namespace {

// Takes as long as the run that was started last says.
class FakeBackend : public Backend {
 public:
  Device device() const override { return Device::cpu; }
  std::string name() const override { return "fake"; }
  std::size_t free_bytes() const override { return 1 << 20; }
  void* allocate(std::size_t bytes, const std::string&) override { return std::malloc(bytes); }
  void release(void* memory) override { std::free(memory); }
  void upload(void*, const void*, std::size_t) override {}
  void download(void*, const void*, std::size_t) override {}
  void fill(void*, unsigned char, std::size_t) override {}
  void finish(const Run& run) override { run.start(nullptr); }
  double seconds(const Run& run, int launches, bool cold) override {
    run.start(nullptr);
    calls.push_back({takes, launches, cold});
    return takes;
  }
  double peak_now(int) override {
    peaks_asked.push_back(calls.size());
    return clock * peak_at_full_clock;
  }
  void reference(const Problem&, int, int, double*, double*) override {}

  struct Call {
    double takes;
    int launches;
    bool cold;
  };
  double takes = 0, clock = 1, peak_at_full_clock = 0;
  std::vector<Call> calls;
  std::vector<std::size_t> peaks_asked;  // how many runs had been timed by then
};

constexpr Shape shape{100, 100, 50};  // 1e6 FLOP, 80 kB

class Timing : public testing::Test {
 protected:
  Row row(const std::string& name, double seconds, const std::string& step = "99_test") {
    Row row{step, Kernel{.name = name, .prepare = {}, .traffic = [](Shape) { return traffic; }},
            shape};
    row.run = {[this, seconds](Stream) { backend.takes = seconds; }};
    row.exact = true;
    return row;
  }

  void measure(std::vector<Row>& rows) {
    Timer timer(options, machine, json, [&] { return again; });
    timer.measure(rows, backend, [](const std::string&) {});
  }

  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  }

  static constexpr Traffic traffic{4000, 400, 0, 0};
  FakeBackend backend;
  const Step step{"99_test", "a test", Device::cpu, {}};
  const std::string path =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name() + ".json";
  Options options = [this] {
    Options asked;
    asked.step = &step;
    asked.repeats = 3;
    asked.json = path;
    return asked;
  }();
  Machine machine{
      .name = "fake", .peak_flops = 1e9, .levels = {{"L1", 10000, 100e9}, {"memory", 0, 50e6}}};
  Machine again = machine;  // what a second look at the ceilings finds
  JsonFile json{path};
};

TEST(Statistics, MedianAndQuartiles) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(spread({5}), 0);
  EXPECT_DOUBLE_EQ(spread({1, 2, 3, 4, 5}), 2.0 / 3);
  EXPECT_EQ(geometric_mean({}), 0);
  EXPECT_DOUBLE_EQ(geometric_mean({0.5, 2, 8}), 2);
}

TEST_F(Timing, EveryRowIsRepeatedAndLongEnough) {
  std::vector<Row> rows = {row("a", 4e-3), row("b", 20e-3)};
  measure(rows);
  EXPECT_EQ(rows[0].seconds, std::vector<double>(3, 4e-3));
  EXPECT_EQ(rows[1].seconds, std::vector<double>(3, 20e-3));
  ASSERT_EQ(backend.calls.size(), 2u + 6u);
  for (std::size_t i = 2; i < backend.calls.size(); ++i)
    EXPECT_GE(backend.calls[i].takes * backend.calls[i].launches, 10e-3);
  EXPECT_DOUBLE_EQ(flops_per_second(rows[0]), 1e6 / 4e-3);
}

TEST_F(Timing, ColdRunsAreLaunchedOneByOne) {
  options.cold = true;
  std::vector<Row> rows = {row("a", 4e-3)};
  measure(rows);
  ASSERT_EQ(backend.calls.size(), 4u);
  for (std::size_t i = 1; i < backend.calls.size(); ++i) {
    EXPECT_EQ(backend.calls[i].launches, 1);
    EXPECT_TRUE(backend.calls[i].cold);
  }
}

TEST_F(Timing, RowsInTroubleAreNotTimed) {
  std::vector<Row> rows = {row("right", 4e-3), row("wrong", 4e-3), row("odd", 4e-3)};
  rows[1].fail(Exit::wrong_result, "C[0,0] is 1, should be 2");
  rows[2].skip(Exit::unsupported, "K must be even");
  measure(rows);
  EXPECT_EQ(rows[0].seconds.size(), 3u);
  EXPECT_TRUE(rows[1].seconds.empty());
  EXPECT_TRUE(rows[2].seconds.empty());
  EXPECT_EQ(text().find("wrong"), std::string::npos);
}

TEST_F(Timing, RatioIsToTheFastestPeer) {
  std::vector<Row> rows = {row("ours", 4e-3), row("slow", 16e-3, peer_step),
                           row("fast", 8e-3, peer_step)};
  measure(rows);
  ASSERT_NE(fastest_peer(rows), nullptr);
  EXPECT_EQ(fastest_peer(rows)->kernel.name, "fast");
  EXPECT_NE(text().find("\"ratio_to_peer\": 2.0000000000000000e+00"), std::string::npos) << text();
  EXPECT_NE(text().find("\"peer/fast/100x100x50/"), std::string::npos);
  EXPECT_NE(text().find("\"ratio_to_slow\": 4.0000000000000000e+00"), std::string::npos) << text();
}

TEST_F(Timing, APeerIsNamedByTheWordThatAsksForIt) {
  EXPECT_EQ(peer_word(row("OpenBLAS 0.3.21 Zen, 1 thread", 1, peer_step)), "openblas");
  EXPECT_EQ(peer_word(row("MKL", 1, peer_step)), "mkl");
}

// A clock that halves doubles every time; the share of the peak does not move.
TEST_F(Timing, ThePeakIsMeasuredBesideEveryRepetition) {
  std::vector<Row> rows = {row("a", 0)};
  int starts = 0;
  rows[0].run.start = [&](Stream) {
    backend.takes = 4e-3 / backend.clock;
    backend.clock = starts++ % 2 ? 1 : 0.5;
  };
  backend.peak_at_full_clock = 0.5e9;
  options.repeats = 4;
  measure(rows);
  EXPECT_EQ(rows[0].peaks, std::vector<double>({0.25e9, 0.5e9, 0.25e9, 0.5e9}));
  EXPECT_EQ(backend.peaks_asked, std::vector<std::size_t>({1, 2, 3, 4}));
  EXPECT_GT(spread(rows[0].seconds), 0.5);
  EXPECT_EQ(shares_of_peak(rows[0], machine), std::vector<double>(4, 0.5));
  const Counters summary = summary_of(rows[0], rows, machine);
  EXPECT_EQ(summary, Counters({{"peak_gflops", 0.375}, {"of_peak", 0.5}, {"of_peak_spread", 0}}));
  EXPECT_NE(text().find("\"of_peak\": 5.0000000000000000e-01"), std::string::npos) << text();
}

TEST_F(Timing, WhereNoPeakIsBesideTheMachinesHolds) {
  std::vector<Row> rows = {row("a", 4e-3)};
  measure(rows);
  EXPECT_TRUE(rows[0].peaks.empty());
  EXPECT_EQ(summary_of(rows[0], rows, machine), Counters({{"peak_gflops", 1}, {"of_peak", 0.25}}));
  machine.peak_flops = 0;
  EXPECT_EQ(summary_of(rows[0], rows, machine), Counters({{"peak_gflops", 0}}));
}

TEST_F(Timing, ErrorsAreRecordedWhereThereAreAny) {
  std::vector<Row> rows = {row("exact", 4e-3), row("real", 4e-3)};
  rows[1].errors = Errors{.max = 4.5, .rms = 0.375};
  const auto named = [&](const Row& one, const std::string& name) {
    std::vector<double> found;
    for (const auto& [counter, value] : counters_of(one))
      if (counter == name) found.push_back(value);
    return found;
  };
  EXPECT_EQ(named(rows[0], "error_max"), std::vector<double>());
  EXPECT_EQ(named(rows[1], "error_max"), std::vector<double>({4.5}));
  EXPECT_EQ(named(rows[1], "error_rms"), std::vector<double>({0.375}));
  measure(rows);
  EXPECT_TRUE(contains(text(), "\"error_max\": 4.5"));
  EXPECT_TRUE(contains(text(), "\"error_rms\": 3.75"));
}

TEST_F(Timing, AChecksTableHasTheErrorsOfRightRows) {
  options.check_only = true;
  std::vector<Row> rows = {row("exact", 4e-3), row("real", 4e-3), row("wrong", 4e-3)};
  const auto table = [&] {
    testing::internal::CaptureStdout();
    Report report(options, machine, {});
    report.add(rows);
    const std::string all = testing::internal::GetCapturedStdout();
    return all.substr(all.find("  kernel"));
  };
  rows[2].fail(Exit::wrong_result, "C[0,0] is 1, should be 2");
  EXPECT_EQ(table(),
            "  kernel  result\n"
            "  exact   verified (exact)\n"
            "  real    verified (exact)\n"
            "  wrong   FAILED: C[0,0] is 1, should be 2\n");
  rows[1].errors = Errors{.max = 14.5, .rms = 0.375};
  EXPECT_EQ(table(),
            "  kernel  error max    rms  result\n"
            "  exact           -      -  verified (exact)\n"
            "  real       14.500  0.375  verified (exact)\n"
            "  wrong   FAILED: C[0,0] is 1, should be 2\n"
            "  error: of an element of C, in units of u (|A||B|), u = 2^-24.\n");
}

// What was seen beside any row is a ceiling for all of them.
TEST_F(Timing, ARateIsPossibleBelowTheHighestPeakSeen) {
  backend.peak_at_full_clock = 1.2e9;
  machine.levels.clear();
  std::vector<Row> rows = {row("fast", 0.9e-3), row("lucky", 0.7e-3)};
  measure(rows);
  EXPECT_TRUE(rows[0].well());
  EXPECT_EQ(rows[1].exit, Exit::impossible_rate);
}

TEST_F(Timing, RateAboveThePeakIsAnErrorAndNoRecord) {
  std::vector<Row> rows = {row("honest", 4e-3), row("lucky", 0.9e-3)};
  measure(rows);
  EXPECT_TRUE(rows[0].well());
  EXPECT_EQ(rows[1].exit, Exit::impossible_rate);
  EXPECT_NE(text().find("honest"), std::string::npos);
  EXPECT_EQ(text().find("lucky"), std::string::npos);
}

TEST_F(Timing, ACeilingThatStoodLowIsMeasuredAgain) {
  again.peak_flops = 1.2e9;
  again.levels[0].bytes_per_second = 1e9;
  again.levels[1].bytes_per_second = 90e6;
  std::vector<Row> rows = {row("honest", 4e-3), row("lucky", 0.9e-3)};
  measure(rows);
  EXPECT_TRUE(rows[1].well());
  EXPECT_EQ(machine.peak_flops, 1.2e9);
  EXPECT_EQ(machine.levels[0].bytes_per_second, 100e9);
  EXPECT_EQ(machine.levels[1].bytes_per_second, 90e6);
}

TEST_F(Timing, FasterThanMemoryIsAnErrorWhereCachesCannotExplainIt) {
  Row slow = row("slow", 0), fast = row("fast", 0);
  slow.seconds = {1.5e-3};  // 70 kB that cannot have been cached, at 47 MB/s
  fast.seconds = {1.2e-3};  // at 58 MB/s
  EXPECT_EQ(impossible(slow, machine), "");
  EXPECT_NE(impossible(fast, machine).find("out of memory"), std::string::npos);
  machine.levels[0].bytes = 80000;
  EXPECT_EQ(impossible(fast, machine), "");
  machine.levels.erase(machine.levels.begin());
  EXPECT_EQ(impossible(fast, machine), "");
}

TEST_F(Timing, AFailedLaunchIsTheRowsOwnTrouble) {
  std::vector<Row> rows = {row("good", 4e-3), row("bad", 4e-3)};
  int starts = 0;
  rows[1].run.start = [&](Stream) {
    backend.takes = 4e-3;
    if (++starts > 1) throw Refusal(Exit::device_error, "launch failed");
  };
  measure(rows);
  EXPECT_TRUE(rows[0].well());
  EXPECT_EQ(rows[1].exit, Exit::device_error);
  EXPECT_EQ(text().find("bad"), std::string::npos);
}

TEST_F(Timing, TheFileIsWholeAfterEveryShape) {
  Timer timer(options, machine, json, [&] { return again; });
  for (int shapes = 1; shapes <= 2; ++shapes) {
    std::vector<Row> rows = {row(fmt::format("a{}", shapes), 4e-3)};
    timer.measure(rows, backend, [](const std::string&) {});
    const std::string written = text();
    EXPECT_EQ(written.front(), '{');
    EXPECT_EQ(written.find_last_of('}'), written.find_last_not_of(" \n"));
    for (int seen = 1; seen <= shapes; ++seen)
      EXPECT_NE(written.find(fmt::format("99_test/a{}/", seen)), std::string::npos);
    EXPECT_NE(written.find("\"peak_flops\": \"1000000000\""), std::string::npos) << written;
    EXPECT_NE(written.find("\"level_1_name\": \"memory\""), std::string::npos);
    EXPECT_NE(written.find("\"label\": \"verified (exact)\""), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  }
}

// A pipe or a device is no place for a file: moving a result there would put an end to it.
TEST(Json, AnUnwritablePlaceIsFoundAtOnce) {
  const std::string pipe = testing::TempDir() + "gemm_test_pipe";
  std::filesystem::remove(pipe);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& place :
       {testing::TempDir() + "no/such/folder/a.json", testing::TempDir(), pipe})
    try {
      JsonFile json(place);
      ADD_FAILURE() << place;
    } catch (const Refusal& refusal) {
      EXPECT_EQ(refusal.code, Exit::cannot_write);
    }
  std::filesystem::remove(pipe);
}

TEST_F(Timing, ARefusedCandidateLeavesOneRecordWithTheReason) {
  options.tune = "anywhere";
  Row refused = row("refused", 1e-3);
  refused.kernel.tile.BM = 77;
  refused.skip(Exit::unsupported, "has 2048 threads, 1024 at most");
  std::vector<Row> rows = {refused, row("timed", 4e-3)};
  measure(rows);
  EXPECT_TRUE(contains(text(), "skipped (has 2048 threads, 1024 at most)"));
  EXPECT_TRUE(contains(text(), "\"BM\": 7.7"));
  const std::string name = "99_test/refused/", all = text();
  EXPECT_EQ(all.find("\"name\": \"" + name), all.rfind("\"name\": \"" + name));
  EXPECT_TRUE(rows[0].seconds.empty());
}

TEST_F(Timing, ASkippedRowLeavesNoRecord) {
  Row skipped = row("skipped", 1e-3);
  skipped.skip(Exit::unsupported, "K must be even");
  std::vector<Row> rows = {skipped, row("timed", 4e-3)};
  measure(rows);
  EXPECT_TRUE(contains(text(), "99_test/timed/"));
  EXPECT_EQ(text().find("99_test/skipped/"), std::string::npos);
}

TEST(StepMain, IsReadInOneGlance) {
  std::ifstream file(GEMM_STEP_MAIN);
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) EXPECT_LE(line.size(), 100u);
  EXPECT_GT(lines, 0);
  EXPECT_LE(lines, 40);
}

TEST_F(Timing, TheRoofIsTheOneThatIsReachedFirst) {
  Row r = row("a", 4e-3);
  // 227 FLOP per byte asked for: L1 would give 2.3e13; 12.5 FLOP per compulsory byte at 50 MB/s
  // are 6.25e8, below the peak.
  EXPECT_EQ(roof_of(r, machine), "memory");
  machine.levels[1].bytes_per_second = 50e9;
  EXPECT_EQ(roof_of(r, machine), "arithmetic");
  machine.levels[0].bytes_per_second = 1e6;
  EXPECT_EQ(roof_of(r, machine), "L1");
  machine.levels.clear();
  EXPECT_EQ(roof_of(r, machine), "-");
}

TEST_F(Timing, TheGravestRowDecidesTheExitCode) {
  const auto exit_code = [&](const std::vector<std::pair<Exit, bool>>& outcomes) {
    testing::internal::CaptureStdout();
    Report report(options, machine, {});
    std::vector<Row> rows;
    for (const auto& [code, peer] : outcomes) {
      rows.push_back(row("a", 4e-3, peer ? peer_step : "99_test"));
      if (code != Exit::ok) rows.back().fail(code, "reason");
    }
    report.add(rows);
    testing::internal::GetCapturedStdout();
    return report.exit_code();
  };
  EXPECT_EQ(exit_code({{Exit::ok, false}}), Exit::ok);
  EXPECT_EQ(exit_code({{Exit::ok, false}, {Exit::unsupported, false}}), Exit::ok);
  EXPECT_EQ(exit_code({{Exit::unsupported, false}, {Exit::ok, true}}), Exit::unsupported);
  EXPECT_EQ(exit_code({{Exit::no_memory, false}}), Exit::no_memory);
  EXPECT_EQ(exit_code({{Exit::ok, false}, {Exit::wrong_result, false}}), Exit::wrong_result);
  EXPECT_EQ(exit_code({{Exit::ok, false}, {Exit::wrong_result, true}}), Exit::wrong_result);
  EXPECT_EQ(exit_code({{Exit::device_error, false}, {Exit::wrong_result, false}}),
            Exit::wrong_result);
  EXPECT_EQ(exit_code({{Exit::ok, false}, {Exit::impossible_rate, false}}), Exit::impossible_rate);
}

TEST_F(Timing, TheReportEndsWithTheMeanRatioToEachPeer) {
  const auto closing = [&](const std::vector<Shape>& shapes) {
    options.shapes = shapes;
    testing::internal::CaptureStdout();
    Report report(options, machine, {});
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      std::vector<Row> rows = {row("ours", 0), row("wrong", 0), row("Alpha 1", 0, peer_step),
                               row("Beta 2", 0, peer_step)};
      rows[0].seconds = {1e-3}, rows[1].seconds = {1e-3};
      rows[2].seconds = {i == 0 ? 8e-3 : 0.5e-3}, rows[3].seconds = {2e-3};
      rows[1].fail(Exit::wrong_result, "C[0,0] is 1, should be 2");
      for (Row& each : rows) each.shape = shapes[i];
      report.add(rows);
    }
    testing::internal::GetCapturedStdout();
    testing::internal::CaptureStdout();
    report.close();
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_EQ(closing({{64, 32, 16}}), "");
  EXPECT_EQ(closing({{64, 32, 16}, {8, 16, 32}}),
            "\nRate over the peer's at all shapes, geometric mean and smallest:\n"
            "  kernel  mean ratio  smallest        at  shapes  peer\n"
            "  ours         2.000     0.500   8x16x32       2  Alpha 1\n"
            "  ours         2.000     2.000  64x32x16       2  Beta 2\n");
}

TEST_F(Timing, ARowInTroubleShowsNoRate) {
  std::vector<Row> rows = {row("right", 4e-3), row("wrong", 4e-3)};
  rows[1].fail(Exit::wrong_result, "C[0,0] is 1, should be 2");
  measure(rows);
  testing::internal::CaptureStdout();
  Report report(options, machine, {});
  report.add(rows);
  std::istringstream lines(testing::internal::GetCapturedStdout());
  bool seen = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  wrong")) {
      seen = true;
      EXPECT_EQ(line.substr(line.find_first_not_of(' ', 7)), "FAILED: C[0,0] is 1, should be 2");
    }
    EXPECT_LE(line.size(), 120u) << line;
  }
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace gemm
