// What a load from shared memory costs a stream of FMAs, beside its issue slot: a loop of outer
// products on registers with loads in between whose results nobody uses. For all maps of lanes it
// is the same code; only the addresses differ.
// More    docs/16_gpu_fp32_peak.md            Run   build/steps/lane_map_benchmark

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/lane_map.hpp"
#include "common/launch.hpp"
#include "common/machine.hpp"
#include "common/options.hpp"
#include "common/ptx.hpp"
#include "common/report.hpp"
#include "common/simt/transactions.hpp"
#include "common/timing.hpp"
#include "common/whole_file.hpp"

namespace gemm {
namespace {

// As in step 16: 128 FMAs and 6 loads of 16 bytes for each k, two warps for each scheduler.
constexpr int TM = 16, TN = 8, LM = 4, LN = 8, threads = 256;
constexpr int loads = TM / 4 + TN / 4;
// Steps of k in a pass of the loop. Few: ptxas gathers the loads of a pass at its start, where more
// of them would fill the queue to the load/store pipe.
constexpr int unrolled = 2;
// Room for the loads of a thread tile, even if every lane has a place of its own.
constexpr int pitch = 4 * 32 + TM * LM;

// What stands between the FMAs of a k.
enum class Between { nothing, integers, loads };

// Where each lane's fragments of A and of B begin in a row of shared memory, in floats.
struct Places {
  int a[32], b[32];
};

struct Case {
  const char* name;
  Between between;
  Places places;
};

struct Result {
  Case of;
  double clocks;  ///< of a scheduler, for a k of one warp
  double extra;  ///< clocks of each instruction between the FMAs, over the loop without any
};

// The compiler may neither drop it, since its result is unused, nor move it out of the loop.
__device__ __forceinline__ float4 load_anyway(std::uint32_t shared) {
  float4 v;
  asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(shared)
               : "memory");
  return v;
}

// clocks[block]: those of `rounds * unrolled` outer products of every warp of the block. Nothing is
// ever written to `out`, which the compiler cannot know.
template <Between between>
__global__ void __launch_bounds__(threads, 1)
    outer_products(int rounds, const __grid_constant__ Places places, long long* clocks,
                   float* out) {
  alignas(16) __shared__ float As[unrolled][pitch], Bs[unrolled][pitch];
  const int tid = threadIdx.x, lane = tid % 32;
  for (int i = tid; i < unrolled * pitch; i += threads)
    As[i / pitch][i % pitch] = Bs[i / pitch][i % pitch] = i;
  __syncthreads();

  // Fragments of their own for each k, as in a kernel, and registers of its own for each load, so
  // that no FMA waits for one.
  float acc[TM][TN] = {}, a[unrolled][TM], b[unrolled][TN];
#pragma unroll
  for (int k = 0; k < unrolled; ++k) {
#pragma unroll
    for (int i = 0; i < TM; ++i) a[k][i] = As[k][lane + i];
#pragma unroll
    for (int j = 0; j < TN; ++j) b[k][j] = Bs[k][lane + j];
  }
  float4 loaded[unrolled][loads] = {};
  int integers[loads];
#pragma unroll
  for (int n = 0; n < loads; ++n) integers[n] = tid + n;
  const std::uint32_t a0 = ptx::shared_address(&As[0][places.a[lane]]);
  const std::uint32_t b0 = ptx::shared_address(&Bs[0][places.b[lane]]);
  // Number n of those of a k: B's first, one with every second row.
  const auto stand_between = [&](int n, int k) {
    const int column = n < TN / 4 ? 4 * LN * n : 4 * LM * (n - TN / 4);
    if constexpr (between == Between::loads)
      loaded[k][n] = load_anyway((n < TN / 4 ? b0 : a0) + (k * pitch + column) * sizeof(float));
    if constexpr (between == Between::integers)
      integers[n] = __funnelshift_l(integers[n], integers[(n + 1) % loads], 7);
  };

  __syncthreads();
  const long long begin = clock64();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round)
#pragma unroll
    for (int k = 0; k < unrolled; ++k)
#pragma unroll
      for (int i = 0; i < TM; ++i) {
        if (i % 2 == 0 && i / 2 < loads) stand_between(i / 2, k);
#pragma unroll
        for (int jj = 0; jj < TN; ++jj) {
          const int j = i % 2 ? jj : TN - 1 - jj;
          acc[i][j] = fmaf(a[k][i], b[k][j], acc[i][j]);
        }
      }
  __syncthreads();
  if (tid == 0) clocks[blockIdx.x] = clock64() - begin;

  float sum = 0;
#pragma unroll
  for (int i = 0; i < TM; ++i)
#pragma unroll
    for (int j = 0; j < TN; ++j) sum += acc[i][j];
#pragma unroll
  for (int n = 0; n < loads; ++n) {
    sum += integers[n] & 1;
#pragma unroll
    for (const auto& k : loaded) sum += k[n].x + k[n].y + k[n].z + k[n].w;
  }
  if (sum == -1) *out = sum;
}

template <LaneMap map>
Places places_of() {
  Places places;
  for (int lane = 0; lane < 32; ++lane) {
    const LanePlace place = place_of<map, LM, LN>(lane);
    places.a[lane] = 4 * place.row;
    places.b[lane] = 4 * place.col;
  }
  return places;
}

std::vector<Case> cases() {
  Places own{};
  for (int lane = 0; lane < 32; ++lane) own.a[lane] = own.b[lane] = 4 * lane;
  return {{"nothing", Between::nothing, {}},
          {"integer instructions", Between::integers, {}},
          {"loads, row-major", Between::loads, places_of<LaneMap::row_major>()},
          {"loads, z-order", Between::loads, places_of<LaneMap::z_order>()},
          {"loads, exclusive or", Between::loads, places_of<LaneMap::exclusive_or>()},
          {"loads, one address", Between::loads, {}},
          {"loads, all addresses different", Between::loads, own}};
}

// Wavefronts of a load of 16 bytes from these places, by the rule that the emulator counts by.
int wavefronts_of(const int (&places)[32]) {
  simt::Request request{.lanes = ~0u, .address = {}};
  for (int lane = 0; lane < 32; ++lane) request.address[lane] = sizeof(float) * places[lane];
  return simt::wavefronts(request, sizeof(float4), false);
}

auto kernel_of(Between between) {
  switch (between) {
    case Between::nothing:
      return outer_products<Between::nothing>;
    case Between::integers:
      return outer_products<Between::integers>;
    default:
      return outer_products<Between::loads>;
  }
}

// Clocks that a scheduler takes for a k of one warp: the median over multiprocessors and starts.
double measure(Backend& gpu, const Case& of) {
  constexpr int starts = 5, rounds = 4000, warps = threads / 32 / 4;
  const int blocks = multiprocessors();
  const Buffer clocks(gpu, sizeof(long long) * blocks, "the clocks");
  const Buffer out(gpu, sizeof(float), "the sums");
  // 128 accumulators and more a thread: no multiprocessor has the registers for a second block.
  const Run run = launch(kernel_of(of.between), {blocks, threads}, rounds, of.places,
                         static_cast<long long*>(clocks.get()), static_cast<float*>(out.get()));
  std::vector<double> all;
  for (int start = 0; start < starts; ++start) {
    gpu.finish(run);
    std::vector<long long> read(blocks);
    gpu.download(read.data(), clocks.get(), clocks.size());
    all.insert(all.end(), read.begin(), read.end());
  }
  return median(all) / (rounds * unrolled * warps);
}

void print(const std::vector<Result>& results) {
  std::printf("%-32s %12s %6s %14s %10s\n", "between 128 FMAs", "wavefronts A", "B", "clocks per k",
              "extra");
  for (const auto& [of, clocks, extra] : results) {
    const bool loads_them = of.between == Between::loads;
    const auto count = [&](const int(&places)[32]) {
      return loads_them ? std::to_string(wavefronts_of(places)) : "-";
    };
    std::printf("%-32s %12s %6s %14.2f %10.2f\n", of.name, count(of.places.a).c_str(),
                count(of.places.b).c_str(), clocks, extra);
  }
  std::printf("extra: clocks of each of the %d, over the loop with nothing in between.\n", loads);
}

std::string to_json(const Machine& machine, const std::vector<Result>& results) {
  nlohmann::ordered_json context{
      {"machine", machine.name}, {"fmas", TM * TN}, {"instructions", loads}};
  nlohmann::ordered_json rows;
  for (const auto& [key, value] : machine.facts) context[key] = value;
  for (const auto& [of, clocks, extra] : results) {
    nlohmann::ordered_json row{{"name", of.name}, {"clocks_per_k", clocks}};
    if (of.between != Between::nothing) row["extra_clocks"] = extra;
    if (of.between == Between::loads) {
      row["wavefronts_a"] = wavefronts_of(of.places.a);
      row["wavefronts_b"] = wavefronts_of(of.places.b);
    }
    rows.push_back(row);
  }
  return nlohmann::ordered_json{{"context", context}, {"benchmarks", rows}}.dump(2) + "\n";
}

Exit benchmark_lane_maps(int argc, char** argv) {
  std::string json;
  CLI::App app("What a load costs a stream of FMAs, by the map of lanes", "lane_map_benchmark");
  app.add_option("--json", json, "write the results to a file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", app.help().c_str());
    return Exit::ok;
  } catch (const CLI::ParseError& error) {
    throw Refusal(Exit::bad_usage, error.what());
  }
  const WholeFile file("--json", json);
  if (!gpu_answers())
    throw Refusal(
        Exit::no_device,
        "no GPU answers that this build has code for, and no emulator has its clocks: run "
        "it where there is one");
  const auto gpu = open_backend(Device::gpu);
  std::vector<Result> results;
  for (const Case& of : cases()) {
    const double clocks = measure(*gpu, of);
    const double alone = results.empty() ? clocks : results.front().clocks;
    results.push_back({of, clocks, (clocks - alone) / loads});
  }
  std::printf("%s: outer products of %d x %d, %d threads on each of %d multiprocessors\n",
              gpu->name().c_str(), TM, TN, threads, multiprocessors());
  print(results);
  if (file.wanted()) file.write(to_json(describe_machine(*gpu), results));
  return Exit::ok;
}

}  // namespace
}  // namespace gemm

int main(int argc, char** argv) {
  return gemm::run_program(argv[0], [&] { return gemm::benchmark_lane_maps(argc, argv); });
}
