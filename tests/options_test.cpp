// The command line: every flag, every default, and one clear line for everything that is wrong.
#include "common/options.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "common/error.hpp"

namespace gemm {

void PrintTo(const Shape& s, std::ostream* out) { *out << s.M << 'x' << s.N << 'x' << s.K; }
static bool operator==(const Shape& a, const Shape& b) {
  return a.M == b.M && a.N == b.N && a.K == b.K;
}

namespace {

Step step(Device device, std::vector<int> sizes = {}) {
  return {.name = "99_test",
          .title = "a test",
          .device = device,
          .kernels = {{"small tiles", {}, {}}, {"large tiles", {}, {}}},
          .sizes = std::move(sizes)};
}

Step take_home() {
  Step whole = step(Device::cpu);
  whole.whole_contract = true;
  return whole;
}

const std::vector<Step> cpu_step = {step(Device::cpu), step(Device::emulator)};
const std::vector<Step> gpu_step = {step(Device::gpu), step(Device::emulator)};
const std::vector<Step> whole_step = {take_home()};
const std::vector<Step> emulated_step = {step(Device::emulator)};

const auto gpu_is_there = [] { return true; };
const auto gpu_is_missing = [] { return false; };

Step tunable(Device device) {
  Step with_candidates = step(device);
  with_candidates.candidates = {{"16x16", {}, {}}, {"32x32", {}, {}}};
  return with_candidates;
}
const std::vector<Step> tunable_step = {tunable(Device::gpu), tunable(Device::emulator)};

using Shapes = std::vector<Shape>;

Options read(const std::vector<std::string>& arguments, const std::vector<Step>& steps = cpu_step,
             const std::function<bool()>& gpu = gpu_is_missing) {
  return parse(arguments, steps, gpu).value();
}

TEST(Tuning, TakesTheCandidatesAtAShapeOfEachClass) {
  const Options options = read({"--tune"}, tunable_step, gpu_is_there);
  EXPECT_EQ(options.tune, "99_test.tuned.json");
  ASSERT_EQ(options.kernels.size(), 2u);
  EXPECT_EQ(options.kernels[0]->name, "16x16");
  EXPECT_EQ(options.shapes, (Shapes{{256, 256, 256},
                                    {512, 512, 512},
                                    {1024, 1024, 1024},
                                    {2048, 2048, 2048},
                                    {4096, 4096, 4096}}));
  const Options asked =
      read({"--tune", "a.json", "--size", "9", "--kernel", "32"}, tunable_step, gpu_is_there);
  EXPECT_EQ(asked.tune, "a.json");
  EXPECT_EQ(asked.shapes, (Shapes{{9, 9, 9}}));
  ASSERT_EQ(asked.kernels.size(), 1u);
  EXPECT_EQ(asked.kernels[0]->name, "32x32");
}

TEST(Tuning, IsOffUnlessAskedFor) {
  const Options options = read({}, tunable_step, gpu_is_there);
  EXPECT_EQ(options.tune, "");
  EXPECT_EQ(options.tuned, "");
  EXPECT_EQ(options.kernels[0]->name, "small tiles");
  EXPECT_EQ(read({"--tuned"}, tunable_step, gpu_is_there).tuned, "99_test.tuned.json");
  EXPECT_EQ(read({"--tuned", "b"}, tunable_step, gpu_is_there).tuned, "b");
}

TEST(Tuning, IsRefusedWithTheReason) {
  const auto refusal_of = [](const std::vector<std::string>& arguments,
                             const std::vector<Step>& steps) -> std::string {
    try {
      read(arguments, steps, gpu_is_missing);
    } catch (const Refusal& refusal) {
      EXPECT_EQ(refusal.code, Exit::bad_usage);
      return refusal.what();
    }
    return "took it";
  };
  EXPECT_EQ(refusal_of({"--tune"}, gpu_step),
            "--tune: 99_test has no candidates to choose from; drop it");
  EXPECT_EQ(refusal_of({"--tune"}, tunable_step),
            "--tune: needs a GPU, because the emulator's times are not a GPU's");
  for (const char* other : {"--tuned", "--check-only"})
    EXPECT_NE(refusal_of({"--tune", "a", other}, tunable_step), "took it") << other;
}

TEST(Sizes, ListsAndRangesMix) {
  EXPECT_EQ(parse_sizes("256"), std::vector<int>({256}));
  EXPECT_EQ(parse_sizes("256,512,1024:2560:512"),
            std::vector<int>({256, 512, 1024, 1536, 2048, 2560}));
  EXPECT_EQ(parse_sizes("1:6:2,0"), std::vector<int>({1, 3, 5, 0}));
  EXPECT_EQ(parse_sizes("7:7:9"), std::vector<int>({7}));
  EXPECT_EQ(parse_sizes("2147479550:2147479551:5"), std::vector<int>({2147479550}));
}

TEST(Sizes, AreRefusedWithTheReason) {
  const std::pair<const char*, const char*> bad[] = {
      {"", "'' is not a whole number"},
      {"256,", "'' is not a whole number"},
      {"12x", "'12x' is not a whole number"},
      {"-5", "'-5' is not a whole number"},
      {"2147483648", "'2147483648' is not a whole number"},
      {"1.5", "'1.5' is not a whole number"},
      {" 5", "' 5' is not a whole number"},
      {"1:9", "'1:9' is not first:last:step"},
      {"1:9:2:3", "'1:9:2:3' is not first:last:step"},
      {"1:9:0", "its step is 0"},
      {"9:1:2", "9 > 1"},
      {"1:100000:1", "more than 10000 sizes"},
  };
  for (const auto& [text, reason] : bad) try {
      parse_sizes(text);
      ADD_FAILURE() << text << " was taken";
    } catch (const Refusal& refusal) {
      EXPECT_EQ(refusal.code, Exit::bad_usage);
      EXPECT_NE(std::string(refusal.what()).find(reason), std::string::npos) << refusal.what();
    }
}

TEST(Sizes, ShapesAreTakenAsWritten) {
  EXPECT_EQ(parse_shapes("17x1000x0"), Shapes({{17, 1000, 0}}));
  EXPECT_EQ(parse_shapes("4:6:2,7x8x9"), Shapes({{4, 4, 4}, {6, 6, 6}, {7, 8, 9}}));
  EXPECT_EQ(parse_shapes("4096x64x4096,1x2x3"), Shapes({{4096, 64, 4096}, {1, 2, 3}}));
}

TEST(Sizes, ShapesAreRefusedWithTheReason) {
  const std::pair<const char*, const char*> bad[] = {
      {"", "'' is not a whole number"},
      {"17x17", "'17x17' is not MxNxK"},
      {"1x2x3x4", "'1x2x3x4' is not MxNxK"},
      {"1x2x3,", "'' is not a whole number"},
      {"1x2x", "'' is not a whole number"},
      {"1X2X3", "'1X2X3' is not a whole number"},
      {"1x-2x3", "'-2' is not a whole number"},
      {"1x2147483648x3", "'2147483648' is not a whole number"},
  };
  for (const auto& [text, reason] : bad) try {
      parse_shapes(text);
      ADD_FAILURE() << text << " was taken";
    } catch (const Refusal& refusal) {
      EXPECT_EQ(refusal.code, Exit::bad_usage);
      EXPECT_NE(std::string(refusal.what()).find(reason), std::string::npos) << refusal.what();
    }
}

TEST(Options, DefaultsOnACpu) {
  const Options options = read({});
  EXPECT_EQ(options.device, Device::cpu);
  EXPECT_EQ(options.step, &cpu_step[0]);
  EXPECT_EQ(options.shapes, Shapes({{512, 512, 512}}));
  EXPECT_EQ(options.kernels.size(), 2u);
  EXPECT_EQ(options.init, Init::normal);
  EXPECT_EQ(options.seed, 0);
  EXPECT_EQ(options.repeats, 5);
  EXPECT_EQ(options.threads, 1);
  EXPECT_TRUE(options.peers.empty());
  EXPECT_FALSE(options.cold || options.check_only || options.count);
}

TEST(Options, AGpuStepTakesTheGpuWhereOneAnswers) {
  const Options there = read({}, gpu_step, gpu_is_there);
  EXPECT_EQ(there.device, Device::gpu);
  EXPECT_EQ(there.shapes, Shapes({{4096, 4096, 4096}}));
  EXPECT_EQ(there.repeats, 10);
  const Options missing = read({}, gpu_step);
  EXPECT_EQ(missing.device, Device::emulator);
  EXPECT_EQ(missing.shapes, Shapes({{256, 256, 256}}));
  EXPECT_EQ(missing.repeats, 1);
  EXPECT_EQ(read({}, emulated_step, gpu_is_there).device, Device::emulator);
  EXPECT_EQ(read({"--device", "gpu"}, gpu_step).device, Device::gpu);
  EXPECT_EQ(read({"--device", "emulator"}, gpu_step, gpu_is_there).device, Device::emulator);
}

TEST(Options, AStepsOwnSizesAreTheDefault) {
  EXPECT_EQ(read({}, {step(Device::cpu, {1000, 1024})}).shapes,
            Shapes({{1000, 1000, 1000}, {1024, 1024, 1024}}));
}

TEST(Options, SizesAreOverriddenOneByOne) {
  EXPECT_EQ(read({"--size", "46341", "--k", "1"}).shapes, Shapes({{46341, 46341, 1}}));
  EXPECT_EQ(read({"--m", "3"}).shapes, Shapes({{3, 512, 512}}));
  EXPECT_EQ(read({"--m=3", "--n=0", "--k=5"}).shapes, Shapes({{3, 0, 5}}));
  EXPECT_EQ(read({"--sizes", "8,16", "--n", "2"}).shapes, Shapes({{8, 2, 8}, {16, 2, 16}}));
  EXPECT_EQ(read({"--size", "0"}).shapes, Shapes({{0, 0, 0}}));
  EXPECT_EQ(read({"--shapes", "3x0x5,8x2x8"}).shapes, Shapes({{3, 0, 5}, {8, 2, 8}}));
}

TEST(Options, EveryFlagIsTaken) {
  const std::string threads = std::to_string(std::thread::hardware_concurrency());
  const Options options = read({"--kernel", "^large", "--init", "int", "--peer", "openblas,blis",
                                "--cold", "--threads", threads, "--repeats", "7", "--count",
                                "--json", "out.json", "--benchmark_filter=x", "--device", "cpu"});
  ASSERT_EQ(options.kernels.size(), 1u);
  EXPECT_EQ(options.kernels[0]->name, "large tiles");
  EXPECT_EQ(options.init, Init::integers);
  EXPECT_EQ(options.peers, std::vector<std::string>({"openblas", "blis"}));
  EXPECT_TRUE(options.cold && options.count);
  EXPECT_FALSE(options.check_only);
  EXPECT_TRUE(read({"--check-only"}).check_only);
  EXPECT_EQ(std::to_string(options.threads), threads);
  EXPECT_EQ(options.repeats, 7);
  EXPECT_EQ(options.json, "out.json");
  EXPECT_EQ(options.benchmark_flags, std::vector<std::string>({"--benchmark_filter=x"}));
  EXPECT_EQ(read({"--peer", "none"}).peers, std::vector<std::string>({"none"}));
  EXPECT_EQ(read({"--init", "positive"}).init, Init::positive);
  EXPECT_EQ(read({"--seed", "7"}).seed, 7);
  EXPECT_EQ(read({"--init", "wide"}).init, Init::wide);
  EXPECT_EQ(read({"--init", "zeros", "--warm"}).init, Init::zeros);
  EXPECT_EQ(read({"--repeats", "7", "--benchmark_repetitions=3"}).repeats, 3);
  EXPECT_TRUE(read({"--seconds-only"}).seconds_only);
  EXPECT_EQ(read({}).pad, 0);
  EXPECT_EQ(read({"--pad", "16"}, whole_step).pad, 16);
}

TEST(Options, HelpAndListAreAnswered) {
  testing::internal::CaptureStdout();
  EXPECT_FALSE(parse({"--help"}, cpu_step, gpu_is_missing));
  const std::string help = testing::internal::GetCapturedStdout();
  for (const char* flag : {"--m",
                           "--n",
                           "--k",
                           "--size",
                           "--sizes",
                           "--shapes",
                           "--seconds-only",
                           "--pad",
                           "--device",
                           "--kernel",
                           "--init",
                           "--peer",
                           "--cold",
                           "--warm",
                           "--threads",
                           "--repeats",
                           "--check-only",
                           "--count",
                           "--json",
                           "--list",
                           "--benchmark_"})
    EXPECT_NE(help.find(flag), std::string::npos) << flag;
  testing::internal::CaptureStdout();
  EXPECT_FALSE(parse({"--list"}, cpu_step, gpu_is_missing));
  const std::string list = testing::internal::GetCapturedStdout();
  for (const char* word : {"99_test", "small tiles", "large tiles", "cpu", "emulator"})
    EXPECT_NE(list.find(word), std::string::npos) << word;
}

struct Bad {
  std::vector<std::string> arguments;
  const char* reason;
  const std::vector<Step>* steps = &cpu_step;
};

TEST(Options, WrongOnesAreRefusedOnOneLine) {
  const std::vector<Step> without_emulator = {step(Device::cpu)};
  const std::vector<Bad> bad = {
      {{"--m", "-1"}, "--m"},
      {{"--m", "2147483648"}, "--m"},
      {{"--m", "2147483647"}, "--m"},
      {{"--n", "ten"}, "--n"},
      {{"--k", "1e3"}, "--k"},
      {{"--k"}, "--k"},
      {{"--size", "-4"}, "--size"},
      {{"--size", "8", "--sizes", "8,9"}, "--sizes"},
      {{"--size", "8", "--m", "1", "--n", "2", "--k", "3"}, "--size"},
      {{"--sizes", "8", "--m", "1", "--n", "2", "--k", "3"}, "--sizes"},
      {{"--sizes", "1:9:0"}, "--sizes 1:9:0"},
      {{"--sizes", ""}, "--sizes"},
      {{"--shapes", "8x8"}, "--shapes 8x8"},
      {{"--shapes", ""}, "--shapes"},
      {{"--shapes", "1x2x3", "--size", "8"}, "--shapes"},
      {{"--shapes", "1x2x3", "--sizes", "8,9"}, "--shapes"},
      {{"--shapes", "1x2x3", "--k", "8"}, "--shapes"},
      {{"--pad", "16"}, "--pad: 99_test"},
      {{"--pad", "-1"}, "--pad", &whole_step},
      {{"--pad", "4097"}, "--pad", &whole_step},
      {{"--device", "tpu"}, "--device"},
      {{"--device", "gpu"}, "is a CPU step"},
      {{"--device", "cpu"}, "is a GPU step", &gpu_step},
      {{"--device", "gpu"}, "no GPU code", &emulated_step},
      {{"--device", "emulator"}, "no emulator", &without_emulator},
      {{"--kernel", "huge"}, "'small tiles', 'large tiles'"},
      {{"--kernel", "("}, "not a regular expression"},
      {{"--kernel", std::string(100000, '(')}, "--kernel"},
      {{"--init", "random"}, "--init"},
      {{"--seed", "-1"}, "--seed"},
      {{"--cold", "--warm"}, "--warm"},
      {{"--threads", "0"}, "--threads"},
      {{"--threads", "many"}, "--threads"},
      {{"--threads", "100000"}, "--threads"},
      {{"--repeats", "0"}, "--repeats"},
      {{"--repeats", "-3"}, "--repeats"},
      {{"--count", "--device", "gpu"}, "--count", &gpu_step},
      {{"--count"}, "--count", &without_emulator},
      {{"--json", ""}, "--json"},
      {{"--check-only", "--json", "a.json"}, "--json"},
      {{"--benchmark_repetitions=0"}, "--benchmark_repetitions=0"},
      {{"--benchmark_repetitions=-3"}, "--benchmark_repetitions=-3"},
      {{"--benchmark_repetitions=abc"}, "--benchmark_repetitions=abc"},
      {{"--benchmark_out=x.json"}, "--json"},
      {{"--benchmark_format=csv"}, "--json"},
      {{"--colour"}, "--colour"},
      {{"256"}, "256"},
  };
  for (const Bad& wrong : bad) try {
      read(wrong.arguments, *wrong.steps);
      ADD_FAILURE() << testing::PrintToString(wrong.arguments) << " was taken";
    } catch (const Refusal& refusal) {
      const std::string line = refusal.what();
      EXPECT_EQ(refusal.code, Exit::bad_usage);
      EXPECT_NE(line.find(wrong.reason), std::string::npos) << line;
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    }
}

TEST(Options, ABuildWithNothingToRunSaysSo) { EXPECT_THROW(read({}, {}), Refusal); }

}  // namespace
}  // namespace gemm
