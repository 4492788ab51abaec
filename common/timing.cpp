#include "common/timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "common/apart.hpp"
#include "common/model/traffic.hpp"

namespace gemm {
namespace {

// Measured ceilings are the best of a few short windows; clocks drift by less than this.
constexpr double tolerance = 1.05;

// The quantile of sorted values, between neighbours by linear interpolation.
double quantile(const std::vector<double>& sorted, double fraction) {
  const double at = fraction * (sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

std::string name_of(const Row& row) {
  const auto [M, N, K] = row.shape;
  return fmt::format("{}/{}/{}x{}x{}", row.step, row.kernel.name, M, N, K);
}

// Keeps what Google Benchmark measured, and prints nothing.
class Collector : public benchmark::BenchmarkReporter {
 public:
  // What a filter does not find is said in the table.
  Collector() { SetErrorStream(&unheard_); }
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& report) override {
    runs.insert(runs.end(), report.begin(), report.end());
  }
  JsonFile::Runs runs;

 private:
  std::ostringstream unheard_;
};

std::string label_of(const Row& row) { return row.exact ? "verified (exact)" : "verified"; }

// The flags that Google Benchmark starts from; what the user passes comes later and wins.
void initialize(const Options& options) {
  std::vector<std::string> words = {"--benchmark_enable_random_interleaving=true",
                                    fmt::format("--benchmark_repetitions={}", options.repeats)};
  words.insert(words.end(), options.benchmark_flags.begin(), options.benchmark_flags.end());
  // Google Benchmark keeps the pointer to the program's name: a string that outlives this call.
  std::vector<char*> arguments = {const_cast<char*>(options.step->name.c_str())};
  for (std::string& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  benchmark::Initialize(&count, arguments.data());
  if (count > 1)
    throw Refusal(Exit::bad_usage,
                  fmt::format("{}: Google Benchmark knows no such flag", arguments[1]));
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

double spread(std::vector<double> values) {
  if (values.size() < 2) return 0;
  std::sort(values.begin(), values.end());
  return (quantile(values, 0.75) - quantile(values, 0.25)) / quantile(values, 0.5);
}

double geometric_mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  double logarithms = 0;
  for (const double value : values) logarithms += std::log(value);
  return std::exp(logarithms / static_cast<double>(values.size()));
}

double flops_per_second(const Row& row) {
  const double seconds = median(row.seconds);
  return seconds > 0 ? flops(row.shape) / seconds : 0;
}

std::vector<double> shares_of_peak(const Row& row, const Machine& machine) {
  std::vector<double> shares;
  for (std::size_t i = 0; i < row.seconds.size(); ++i)
    if (const double peak = i < row.peaks.size() ? row.peaks[i] : machine.peak_flops; peak > 0)
      shares.push_back(flops(row.shape) / row.seconds[i] / peak);
  return shares;
}

std::string peer_word(const Row& peer) {
  std::string word = peer.kernel.name.substr(0, peer.kernel.name.find(' '));
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word;
}

std::vector<const Row*> timed_peers(const std::vector<Row>& rows) {
  std::vector<const Row*> peers;
  for (const Row& row : rows)
    if (row.is_peer() && row.well() && flops_per_second(row) > 0) peers.push_back(&row);
  return peers;
}

const Row* fastest_peer(const std::vector<Row>& rows) {
  const std::vector<const Row*> peers = timed_peers(rows);
  const auto slower = [](const Row* a, const Row* b) {
    return flops_per_second(*a) < flops_per_second(*b);
  };
  const auto fastest = std::max_element(peers.begin(), peers.end(), slower);
  return fastest == peers.end() ? nullptr : *fastest;
}

int launches_for(const Run& run, Backend& backend, bool cold) {
  if (backend.device() == Device::emulator) return 1;
  const double once = backend.seconds(run, 1, false);
  const double wanted = backend.device() == Device::gpu ? 2e-3 : 10e-3;
  return cold ? 1 : static_cast<int>(std::clamp(std::ceil(wanted / once), 1.0, 1e4));
}

void raise_ceilings(Machine& machine, const Machine& again) {
  machine.peak_flops = std::max(machine.peak_flops, again.peak_flops);
  for (std::size_t i = 0; i < std::min(machine.levels.size(), again.levels.size()); ++i)
    machine.levels[i].bytes_per_second =
        std::max(machine.levels[i].bytes_per_second, again.levels[i].bytes_per_second);
}

std::string impossible(const Row& row, const Machine& machine) {
  const double rate = flops_per_second(row);
  if (machine.peak_flops > 0 && rate > tolerance * machine.peak_flops)
    return fmt::format("{:.1f} GFLOP/s is above the measured peak of {:.1f}: the time is wrong",
                       rate / 1e9, machine.peak_flops / 1e9);
  if (machine.levels.empty() || row.seconds.empty()) return {};
  // What may lie in caches from the run before does not have to come from memory.
  double cached = 0;
  for (const MemoryLevel& level : machine.levels) cached += static_cast<double>(level.bytes);
  if (cached == 0) return {};  // caches of unknown size may hold everything
  const double memory_rate =
      (compulsory_bytes(row.shape, row.operands) - cached) / median(row.seconds);
  const double ceiling = machine.levels.back().bytes_per_second;
  if (ceiling > 0 && memory_rate > tolerance * ceiling)
    return fmt::format("{:.1f} GB/s out of memory is above the measured {:.1f}: the time is wrong",
                       memory_rate / 1e9, ceiling / 1e9);
  return {};
}

Counters counters_of(const Row& row) {
  Counters counters;
  const auto add = [&](const std::string& name, auto value) {
    counters.emplace_back(name, static_cast<double>(value));
  };
  const auto [M, N, K] = row.shape;
  const Tile& tile = row.kernel.tile;
  add("M", M), add("N", N), add("K", K);
  add("BM", tile.BM), add("BN", tile.BN), add("BK", tile.BK), add("WM", tile.WM),
      add("WN", tile.WN), add("TM", tile.TM), add("TN", tile.TN);
  add("compulsory_bytes", compulsory_bytes(row.shape, row.operands));
  if (row.kernel.traffic) {
    const Traffic traffic = row.kernel.traffic(row.shape);
    add("global_loaded", traffic.global_loaded), add("global_stored", traffic.global_stored);
    add("shared_loaded", traffic.shared_loaded), add("shared_stored", traffic.shared_stored);
  }
  add("block_threads", row.run.footprint.threads);
  add("registers", row.run.footprint.registers);
  add("shared_bytes", row.run.footprint.shared_bytes);
  if (row.occupancy) add("occupancy", row.occupancy->fraction);
  if (row.errors) add("error_max", row.errors->max), add("error_rms", row.errors->rms);
  if (!row.counts) return counters;

  const Counts& counts = *row.counts;
  if (counts.accesses > 0) {
    add("accesses", counts.accesses);
    for (const CacheCount& cache : counts.caches) {
      add("simulated_misses_" + cache.name, cache.misses);
      if (row.kernel.misses)
        add("predicted_misses_" + cache.name, row.kernel.misses(row.shape, cache.cache));
    }
    return counters;
  }
  add("counted_global_loaded", counts.requested.global_loaded);
  add("counted_global_stored", counts.requested.global_stored);
  add("counted_shared_loaded", counts.requested.shared_loaded);
  add("counted_shared_stored", counts.requested.shared_stored);
  const auto add_requests = [&](const std::string& kind, const char* pieces,
                                const WarpAccesses& accesses) {
    add(kind + "_requests", accesses.requests);
    add(kind + pieces, accesses.pieces);
  };
  add_requests("global_load", "_sectors", counts.global_loads);
  add_requests("global_store", "_sectors", counts.global_stores);
  add_requests("shared_load", "_wavefronts", counts.shared_loads);
  add_requests("shared_store", "_wavefronts", counts.shared_stores);
  add("barriers", counts.barriers);
  return counters;
}

Counters summary_of(const Row& row, const std::vector<Row>& rows, const Machine& machine) {
  const std::vector<double> shares = shares_of_peak(row, machine);
  Counters summary;
  summary.emplace_back("peak_gflops",
                       (row.peaks.empty() ? machine.peak_flops : median(row.peaks)) / 1e9);
  if (!shares.empty()) summary.emplace_back("of_peak", median(shares));
  if (!row.peaks.empty()) summary.emplace_back("of_peak_spread", spread(shares));
  for (const Row* peer : timed_peers(rows))
    summary.emplace_back("ratio_to_" + peer_word(*peer),
                         flops_per_second(row) / flops_per_second(*peer));
  if (const Row* peer = fastest_peer(rows))
    summary.emplace_back("ratio_to_peer", flops_per_second(row) / flops_per_second(*peer));
  return summary;
}

void JsonFile::add(const Runs& runs) {
  if (!file_.wanted() || runs.empty()) return;
  runs_.insert(runs_.end(), runs.begin(), runs.end());
  std::ostringstream text;
  benchmark::JSONReporter reporter;
  reporter.SetOutputStream(&text);
  reporter.ReportContext({});
  reporter.ReportRuns(runs_);
  reporter.Finalize();
  file_.write(text.str());
}

std::vector<std::pair<std::string, std::string>> context_of(const Options& options,
                                                            const Machine& machine) {
  std::vector<std::pair<std::string, std::string>> context = {
      {"step", options.step->name},
      {"device", name_of(options.device)},
      {"machine", machine.name},
      {"init", name_of(options.init)},
      {"seed", std::to_string(options.seed)},
      {"element", options.step->operands == Element::bf16 ? "bf16" : "fp32"},
      {"cache", options.cold ? "cold" : "warm"},
      {"threads", std::to_string(options.threads)},
      {"pad", std::to_string(options.pad)},
      {"rows", options.tune.empty() ? "step" : "candidates"},
      {"peak_flops", fmt::format("{}", machine.peak_flops)},
      {"peak_unit", options.step->unit},
      {"data_sheet_flops", fmt::format("{}", machine.data_sheet_flops)}};
  for (std::size_t i = 0; i < machine.levels.size(); ++i) {
    const MemoryLevel& level = machine.levels[i];
    const std::string key = fmt::format("level_{}_", i);
    context.emplace_back(key + "name", level.name);
    context.emplace_back(key + "bytes", fmt::format("{}", level.bytes));
    context.emplace_back(key + "bytes_per_second", fmt::format("{}", level.bytes_per_second));
  }
  context.insert(context.end(), machine.facts.begin(), machine.facts.end());
  return context;
}

Timer::Timer(const Options& options, Machine& machine, JsonFile& json,
             std::function<Machine()> measure_again)
    : options_(options), machine_(machine), json_(json), measure_again_(std::move(measure_again)) {
  initialize(options);
  for (const auto& [key, value] : context_of(options, machine))
    benchmark::AddCustomContext(key, value);
}

void Timer::measure(std::vector<Row>& rows, Backend& backend,
                    const std::function<void(const std::string&)>& say) {
  if (options_.check_only) return;
  const bool apart = backend.device() == Device::cpu && options_.threads > 1;
  std::map<const Row*, std::vector<Repetition>> measured_apart;
  for (Row& row : rows) {
    if (!apart || !row.is_peer() || !row.well()) continue;
    say(fmt::format("measuring {} in a process of its own", name_of(row)));
    attempt(row, [&] { measured_apart[&row] = measure_apart(options_, row); });
  }

  const Pulse before = read_pulse(backend.device());
  // The peak beside a repetition, and the seconds that one run takes.
  const auto repeat = [&](const Row& row, int launches) {
    if (const auto found = measured_apart.find(&row); found != measured_apart.end())
      return found->second.at(row.seconds.size());
    const auto& unit = options_.step->peak;
    const double peak = unit ? unit(options_.threads) : backend.peak_now(options_.threads);
    return Repetition{backend.seconds(row.run, launches, options_.cold), peak};
  };
  std::map<std::string, Row*> registered;
  std::set<const Row*> refused;
  for (Row& row : rows) {
    if (!row.well()) {
      if (options_.tune.empty() || row.is_peer()) continue;
      // Candidates that were refused leave a record of the reason.
      registered[name_of(row)] = &row;
      refused.insert(&row);
      benchmark::RegisterBenchmark(
          name_of(row).c_str(),
          [&](benchmark::State& state) { state.SkipWithError(row.trouble.c_str()); })
          ->UseManualTime()
          ->Iterations(1)
          ->Unit(benchmark::kMillisecond);
      continue;
    }
    say("calibrating " + name_of(row));
    const int launches =
        measured_apart.contains(&row) ? 0 : launches_for(row.run, backend, options_.cold);
    registered[name_of(row)] = &row;
    benchmark::RegisterBenchmark(
        name_of(row).c_str(),
        [&, launches](benchmark::State& state) {
          say(fmt::format("measuring {}, repetition {}", name_of(row), row.seconds.size() + 1));
          for (auto _ : state) {
            try {
              const auto [seconds, peak] = repeat(row, launches);
              row.seconds.push_back(seconds);
              if (peak > 0) row.peaks.push_back(peak);
              machine_.peak_flops = std::max(machine_.peak_flops, peak);
              state.SetIterationTime(row.seconds.back());
            } catch (const Refusal& refusal) {
              row.fail(refusal.code, refusal.what());
              state.SkipWithError(refusal.what());
              return;
            }
          }
          if (backend.device() != Device::emulator)
            state.counters["gflops"] = flops(row.shape) / row.seconds.back() / 1e9;
          for (const auto& [name, value] : counters_of(row)) state.counters[name] = value;
          state.counters["pad"] = options_.pad;
          state.SetLabel(label_of(row));
        })
        ->UseManualTime()
        ->Iterations(1)
        ->Unit(benchmark::kMillisecond);
  }
  if (registered.empty()) return;
  Collector collector;
  benchmark::RunSpecifiedBenchmarks(&collector);
  benchmark::ClearRegisteredBenchmarks();
  const Pulse after = read_pulse(backend.device());

  const auto too_fast = [&](const Row& row) {
    return row.well() && !impossible(row, machine_).empty();
  };
  if (std::any_of(rows.begin(), rows.end(), too_fast)) {
    say("measuring the ceilings again");
    raise_ceilings(machine_, measure_again_());
  }
  for (Row& row : rows)
    if (const std::string why = impossible(row, machine_); row.well() && !why.empty())
      row.fail(Exit::impossible_rate, why);

  JsonFile::Runs records;
  for (auto& run : collector.runs) {
    const Row& row = *registered.at(run.run_name.function_name);
    if (refused.erase(&row) > 0) {
      for (const auto& [name, value] : counters_of(row)) run.counters[name] = value;
      records.push_back(run);
    }
    if (!row.well()) continue;
    // The coefficient of variation of a counter that is 0 is 0 / 0, which JSON cannot hold.
    std::erase_if(run.counters,
                  [](const auto& counter) { return std::isnan(counter.second.value); });
    for (const auto& [name, value] : summary_of(row, rows, machine_)) run.counters[name] = value;
    const auto sensed = [&](const char* name, double value) {
      if (value > 0) run.counters[name] = value;
    };
    sensed("clock_mhz_before", before.clock_mhz);
    sensed("clock_mhz_after", after.clock_mhz);
    sensed("watts_after", after.watts);
    sensed("celsius_after", after.celsius);
    records.push_back(run);
  }
  json_.add(records);
}

}  // namespace gemm
