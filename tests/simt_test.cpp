// The emulator: counts of access patterns known by hand, planted faults found with their lines,
// and speed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <numeric>

#include "common/error.hpp"
#include "common/gemm.hpp"
#include "common/simt/cuda.hpp"
#include "common/simt/emulator.hpp"
#include "common/simt/transactions.hpp"
#include "tests/contains.hpp"
#include "tests/faults/faults.hpp"
#include "tests/faults/patterns.hpp"

namespace gemm {
namespace {

using simt::Fault;
using Kind = simt::Fault::Kind;

// ---- what a request costs

simt::Request strided(int stride_bytes, std::uint32_t lanes = ~0u) {
  simt::Request request{lanes, {}};
  for (int lane = 0; lane < 32; ++lane) request.address[lane] = lane * stride_bytes;
  return request;
}

TEST(Wavefronts, AreAsManyAsWordsOfTheFullestBank) {
  EXPECT_EQ(simt::wavefronts(strided(4), 4, false), 1);
  EXPECT_EQ(simt::wavefronts(strided(0), 4, false), 1);
  EXPECT_EQ(simt::wavefronts(strided(8), 4, false), 2);
  EXPECT_EQ(simt::wavefronts(strided(12), 4, false), 1);
  EXPECT_EQ(simt::wavefronts(strided(128), 4, false), 32);
  EXPECT_EQ(simt::wavefronts(strided(132), 4, false), 1);
  EXPECT_EQ(simt::wavefronts(strided(128, 0xff), 4, false), 8);
  EXPECT_EQ(simt::wavefronts(strided(2), 2, false), 1);
}

TEST(Wavefronts, OfVectorsAreServedInGroupsOfLanes) {
  EXPECT_EQ(simt::wavefronts(strided(8), 8, false), 2);
  EXPECT_EQ(simt::wavefronts(strided(16), 16, false), 4);
  EXPECT_EQ(simt::wavefronts(strided(16, 0xff), 16, false), 1);
  EXPECT_EQ(simt::wavefronts(strided(128), 16, false), 32);
}

TEST(Wavefronts, OfLoadsMergeWherePartnersReadTheSame) {
  simt::Request pairs{~0u, {}}, distant_pairs{~0u, {}};
  for (int lane = 0; lane < 32; ++lane) {
    pairs.address[lane] = lane / 2 * 16;
    distant_pairs.address[lane] = (lane / 4 * 2 + lane % 2) * 16;
  }
  EXPECT_EQ(simt::wavefronts(pairs, 16, false), 2);
  EXPECT_EQ(simt::wavefronts(distant_pairs, 16, false), 2);
  EXPECT_EQ(simt::wavefronts(strided(0), 16, false), 1);
  EXPECT_EQ(simt::wavefronts(strided(0), 16, true), 4);
  EXPECT_EQ(simt::wavefronts(strided(0), 8, false), 1);
}

TEST(Sectors, AreDistinct32Bytes) {
  EXPECT_EQ(simt::sectors(strided(4)), 4);
  EXPECT_EQ(simt::sectors(strided(0)), 1);
  EXPECT_EQ(simt::sectors(strided(16)), 16);
  EXPECT_EQ(simt::sectors(strided(32)), 32);
  EXPECT_EQ(simt::sectors(strided(4096)), 32);
  EXPECT_EQ(simt::sectors(strided(4, 0x80000001)), 2);
}

// ---- counts of kernels

class Emulator : public testing::Test {
 protected:
  Emulator() : in(elements), out(elements, 0.0f) { std::iota(in.begin(), in.end(), 0.0f); }

  simt::Counts counts(const gemm::Run& run) {
    simt::Count count;
    run.start(nullptr);
    return count.result();
  }

  static constexpr int elements = 4096;
  std::vector<float> in, out;
  simt::DeviceBuffer in_buffer{in.data(), elements * sizeof(float), "in"};
  simt::DeviceBuffer out_buffer{out.data(), elements * sizeof(float), "out"};
};

void expect(const simt::Requests& got, std::int64_t bytes, std::int64_t requests,
            std::int64_t transactions) {
  EXPECT_EQ(got.bytes, bytes);
  EXPECT_EQ(got.requests, requests);
  EXPECT_EQ(got.transactions, transactions);
}

TEST_F(Emulator, CountsSectorsOfGlobalRequests) {
  for (const auto& [stride, sectors] : {std::pair{0, 1}, {1, 4}, {2, 8}, {8, 32}, {64, 32}}) {
    const simt::Counts c = counts(faults::load_floats(in.data(), out.data(), stride));
    expect(c.global_load, 32 * 4, 1, sectors);
    expect(c.global_store, 32 * 4, 1, 4);
    EXPECT_EQ(out[31], in[31 * stride]);
  }
}

TEST_F(Emulator, CountsAVectorAsOneAccess) {
  simt::Counts c = counts(faults::load_float4s(in.data(), out.data(), 1));
  expect(c.global_load, 32 * 16, 1, 16);
  expect(c.global_store, 32 * 16, 1, 16);
  EXPECT_EQ(out[127], in[127]);
  c = counts(faults::load_float2s(in.data(), out.data(), 4));
  expect(c.global_load, 32 * 8, 1, 32);
  expect(c.global_store, 32 * 8, 1, 8);
}

TEST_F(Emulator, CountsWavefrontsOfSharedRequests) {
  for (const auto& [stride, wavefronts] : {std::pair{0, 1}, {1, 1}, {2, 2}, {3, 1}, {32, 32}}) {
    const simt::Counts c = counts(faults::load_shared(in.data(), out.data(), stride));
    expect(c.shared_store, 32 * 32 * 4, 32, 32);
    expect(c.shared_load, 32 * 4, 1, wavefronts);
    EXPECT_EQ(c.barriers, 1);
  }
  for (const auto& [sharing, wavefronts] : {std::pair{1, 4}, {2, 2}, {4, 1}, {32, 1}}) {
    const simt::Counts c = counts(faults::load_shared_vectors(in.data(), out.data(), sharing));
    expect(c.shared_store, 32 * 16, 1, 4);
    expect(c.shared_load, 32 * 16, 1, wavefronts);
  }
}

TEST_F(Emulator, PutsLanesTogetherThatComeApart) {
  const simt::Counts c = counts(faults::diverge(in.data(), out.data()));
  expect(c.global_load, 3 * 16 * 4, 3, 3 * 4);
  expect(c.global_store, 3 * 32 * 4, 3, 3 * 4);
}

TEST_F(Emulator, CountsMoreAccessesThanItsLogHolds) {
  const int turns = 2000;
  const simt::Counts c = counts(faults::fill_log(in.data(), out.data(), turns));
  expect(c.global_load, (16 * turns + 16 * 2 * turns) * 4, 2 * turns, 2 * turns);
  expect(c.global_store, 32 * 4, 1, 4);
}

TEST_F(Emulator, NamesTheLinesOfAccesses) {
  const simt::Counts c = counts(faults::load_shared(in.data(), out.data(), 32));
  ASSERT_EQ(c.sites.size(), 4u);
  const std::vector<simt::Source> lines = simt::sources(c.sites);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].file, "patterns.cu");
    if (c.sites[i].shared && !c.sites[i].write) {
      EXPECT_EQ(c.sites[i].requests, c.shared_load);
    }
  }
}

TEST_F(Emulator, AddsLaunchesUntilTheCollectorEnds) {
  simt::Count outer;
  const gemm::Run run = faults::load_floats(in.data(), out.data(), 1);
  run.start(nullptr);
  {
    simt::Count inner;
    run.start(nullptr);
    EXPECT_EQ(inner.result().global_load.requests, 1);
  }
  EXPECT_EQ(outer.result().global_load.requests, 2);
}

TEST_F(Emulator, ShufflesAndSynchronisesWarps) {
  counts(faults::sum_warps(in.data(), out.data()));
  for (int tid = 0; tid < 64; ++tid) {
    const int lane = tid % 32, warp0 = tid - lane;
    const float sum = 32 * warp0 + 31 * 16;
    const float next = warp0 + ((tid ^ 1) % 32 + 1) % 32;
    const float above = lane % 16 == 15 ? tid : tid + 1, below = lane < 2 ? tid : tid - 2;
    EXPECT_EQ(out[tid], sum + next + 1000 * above + 1000000 * below) << tid;
  }
}

TEST_F(Emulator, LetsAsynchronousCopiesArriveAtTheWait) {
  const simt::Counts c = counts(faults::copy_stages(in.data(), out.data()));
  for (int tid = 0; tid < 16; ++tid) {
    const int from = 63 - tid;
    EXPECT_EQ(out[tid], in[from] + 100 * (from < 62 ? in[from] : 0)) << tid;
  }
  EXPECT_EQ(c.shared_store.bytes, 2 * 16 * 16);
}

TEST_F(Emulator, GivesABlockTheDynamicSharedMemoryOfItsLaunch) {
  const int floats = simt::max_shared_bytes / 4 - 32;
  const gemm::Run run = faults::reverse_dynamic_shared(in.data(), out.data(), floats);
  EXPECT_EQ(run.footprint.shared_bytes, simt::max_shared_bytes);
  const simt::Counts c = counts(run);
  for (int tid = 0; tid < 32; ++tid) EXPECT_EQ(out[tid], 2 * in[31 - tid]) << tid;
  expect(c.shared_store, 2 * 32 * 4, 2, 2);
  expect(c.shared_load, 2 * 32 * 4, 2, 2);
  EXPECT_THROW(faults::reverse_dynamic_shared(in.data(), out.data(), floats + 1), Refusal);
}

TEST_F(Emulator, TracesCodeOfTheHostInProgramOrder) {
  const Step& naive = steps().front();
  ASSERT_EQ(naive.name + (naive.device == Device::cpu ? " cpu" : ""), "01_cpu_naive cpu");
  const Step& step = steps()[1];
  ASSERT_EQ(step.device, Device::emulator);
  const Shape shape{5, 7, 3};
  const gemm::Run run = step.kernels.front().prepare(
      {shape, in.data(), in.data(), out.data(), shape.K, shape.N, shape.N});
  std::vector<bool> writes;
  std::vector<std::uint64_t> addresses;
  simt::trace([&] { run.start(nullptr); },
              [&](std::uint64_t address, int bytes, bool write) {
                EXPECT_EQ(bytes, 4);
                addresses.push_back(address);
                writes.push_back(write);
              });
  const int per_element = 2 * shape.K + 1;
  ASSERT_EQ(addresses.size(), std::size_t(shape.M * shape.N * per_element));
  for (std::size_t i = 0; i < writes.size(); ++i)
    EXPECT_EQ(writes[i], i % per_element == per_element - 1u) << i;
  EXPECT_EQ(addresses[2] - addresses[0], 4u) << "along a row of A";
  EXPECT_EQ(addresses[3] - addresses[1], 4u * shape.N) << "down a column of B";
}

TEST_F(Emulator, TracesNoKernels) {
  int accesses = 0;
  simt::trace([&] { counts(faults::load_floats(in.data(), out.data(), 1)); },
              [&](std::uint64_t, int, bool) { ++accesses; });
  EXPECT_EQ(accesses, 0);
}

// ---- faults

struct Planted {
  std::string name;
  faults::Prepare prepare;
  Kind kind;
  int thread;
  std::string array;
  std::int64_t index;
};

void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

// The line of faults/<name>.cu that a comment marks; 0 where there is none.
int marked_line(const std::string& name, const std::string& mark) {
  std::ifstream file(fmt::format("{}/{}.cu", GEMM_FAULTS_FOLDER, name));
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.ends_with("// " + mark + ":")) return number;
  }
  return 0;
}

class PlantedFault : public testing::TestWithParam<Planted> {};

TEST_P(PlantedFault, IsFoundWithItsLine) {
  std::vector<float> in(64, 1.0f), out(64);
  const simt::DeviceBuffer in_buffer(in.data(), 64 * sizeof(float), "in");
  const simt::DeviceBuffer out_buffer(out.data(), 64 * sizeof(float), "out");
  const Planted& planted = GetParam();
  const gemm::Run run = planted.prepare(in.data(), out.data());
  // Twice: a fault leaves nothing behind.
  for (int turn = 0; turn < 2; ++turn) {
    try {
      run.start(nullptr);
      FAIL() << "not found";
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.kind, planted.kind) << fault.what();
      EXPECT_EQ(fault.place.thread, planted.thread) << fault.what();
      EXPECT_EQ(fault.array, planted.array) << fault.what();
      EXPECT_EQ(fault.index, planted.index) << fault.what();
      EXPECT_FALSE(contains(fault.what(), "\n"));
      const auto expect_line = [&](const simt::Source& source, const std::string& mark) {
        const int line = marked_line(planted.name, mark);
        if (line == 0) return;
        EXPECT_EQ(source.file, planted.name + ".cu") << fault.what();
        EXPECT_EQ(source.line, line) << fault.what();
        EXPECT_TRUE(contains(fault.what(), fmt::format("({}.cu:{})", planted.name, line)));
      };
      expect_line(fault.place.source, "fault");
      expect_line(fault.other.source, "other");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, PlantedFault,
    testing::Values(
        Planted{"missing_first_barrier", faults::missing_first_barrier, Kind::shared_race, 32,
                "tile", 32},
        Planted{"missing_second_barrier", faults::missing_second_barrier, Kind::shared_race, 32,
                "tile", 31},
        Planted{"global_read_outside", faults::global_read_outside, Kind::out_of_bounds, 63, "in",
                64},
        Planted{"global_write_outside", faults::global_write_outside, Kind::out_of_bounds, 0, "out",
                -1},
        Planted{"shared_outside", faults::shared_outside, Kind::out_of_bounds, 63, "tile", 64},
        Planted{"dynamic_shared_outside", faults::dynamic_shared_outside, Kind::out_of_bounds, 63,
                "dynamic_shared", 64},
        Planted{"uninitialised_shared", faults::uninitialised_shared, Kind::uninitialised_shared,
                40, "tile", 40},
        Planted{"misaligned_float4", faults::misaligned_float4, Kind::misaligned, 1, "in", 3},
        Planted{"divergent_barrier", faults::divergent_barrier, Kind::divergent_barrier, 0, "", 0},
        Planted{"returned_before_barrier", faults::returned_before_barrier, Kind::divergent_barrier,
                0, "", 0},
        Planted{"async_not_waited", faults::async_not_waited, Kind::async_not_waited, 0, "tile", 0},
        Planted{"missing_warp_barrier", faults::missing_warp_barrier, Kind::shared_race, 16, "tile",
                15},
        Planted{"deep_stack", faults::deep_stack, Kind::stack_overflow, 0, "", 0}),
    [](const auto& info) { return info.param.name; });

// ---- steps: results and speed

class Speed : public testing::Test {
 protected:
  // Seconds of the first row of a step with this tile at 512^3, everything counted and checked.
  static double seconds(const std::string& step_name, Tile tile) {
    const int n = 512;
    std::vector<float> A(n * n, 1.0f), B(n * n, 1.0f), C(n * n);
    const std::size_t bytes = A.size() * sizeof(float);
    const simt::DeviceBuffer a(A.data(), bytes, "A"), b(B.data(), bytes, "B"),
        c(C.data(), bytes, "C");
    for (const Step& step : steps())
      for (const Kernel& kernel : step.kernels) {
        const bool same_tile = kernel.tile.BM == tile.BM && kernel.tile.BN == tile.BN &&
                               kernel.tile.BK == tile.BK && kernel.tile.TM == tile.TM;
        if (step.device != Device::emulator || step.name != step_name || !same_tile) continue;
        const gemm::Run run = kernel.prepare({{n, n, n}, A.data(), B.data(), C.data(), n, n, n});
        const auto begin = std::chrono::steady_clock::now();
        run.start(nullptr);
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
        EXPECT_EQ(C[n * n - 1], n);
        return elapsed.count();
      }
    ADD_FAILURE() << step_name << " has no such row";
    return 0;
  }

  // Other programs may share the cores, so that only a collapse fails.
  static constexpr double patience = 4;
};

// 50 million accesses a second with a simple sink.
TEST_F(Speed, Trace) {
  const int n = 256;
  const std::vector<float> A(n * n, 1.0f), B(n * n, 1.0f);
  std::vector<float> C(n * n);
  const std::size_t size = A.size() * sizeof(float);
  const simt::DeviceBuffer a(A.data(), size, "A"), b(B.data(), size, "B"), c(C.data(), size, "C");
  const gemm::Run run =
      steps()[1].kernels.front().prepare({{n, n, n}, A.data(), B.data(), C.data(), n, n, n});
  std::int64_t traced = 0;
  const auto begin = std::chrono::steady_clock::now();
  simt::trace([&] { run.start(nullptr); },
              [&](std::uint64_t, int bytes, bool) { traced += bytes; });
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(traced, 4 * (std::int64_t{2} * n * n * n + n * n));
  RecordProperty("seconds", fmt::format("{:.2f}", elapsed.count()));
  EXPECT_LT(elapsed.count(), traced / 4 / 50e6 * patience);
}

TEST_F(Speed, RegisterTiling) {
  const double s =
      seconds("11_gpu_register_tiling", {.BM = 128, .BN = 128, .BK = 8, .TM = 8, .TN = 8});
  RecordProperty("seconds", fmt::format("{:.2f}", s));
  EXPECT_LT(s, 1.5 * patience);
}

TEST_F(Speed, SquareTiling) {
  const double s = seconds("09_gpu_square_tiling", {.BM = 32, .BN = 32, .BK = 32});
  RecordProperty("seconds", fmt::format("{:.2f}", s));
  EXPECT_LT(s, 3.0 * patience);
}

}  // namespace
}  // namespace gemm
