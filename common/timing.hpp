// Time, through Google Benchmark with manual time: rows alternate in one process on the same
// operands, so that their ratio is worth more than either time.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/backend.hpp"
#include "common/machine.hpp"
#include "common/options.hpp"
#include "common/row.hpp"
#include "common/whole_file.hpp"

namespace gemm {

double median(std::vector<double> values);

/// Distance between the quartiles, as a fraction of the median; 0 of fewer than two values.
double spread(std::vector<double> values);

/// Of positive values; 0 of none.
double geometric_mean(const std::vector<double>& values);

/// 2MNK over the median time; 0 of a row that was not timed.
double flops_per_second(const Row& row);

/// The rate of each repetition over the peak: the one measured beside it, or the machine's where
/// none was. Empty where there is no peak.
std::vector<double> shares_of_peak(const Row& row, const Machine& machine);

/// The word that --peer knows a peer by: "openblas" for "OpenBLAS 0.3.21 Zen, 1 thread".
std::string peer_word(const Row& peer);

/// The peers of a table that are well and were timed.
std::vector<const Row*> timed_peers(const std::vector<Row>& rows);

/// The fastest peer of a table, or null.
const Row* fastest_peer(const std::vector<Row>& rows);

/// Why no machine with these ceilings can be that fast, or nothing: FLOP/s above the measured peak,
/// or bytes that no cache can have held faster than memory was seen to give them, by more than 5 %.
std::string impossible(const Row& row, const Machine& machine);

/// Launches back to back that make one repetition long beside the clock's own error. The run that
/// finds out is the warm-up too.
int launches_for(const Run& run, Backend& backend, bool cold);

/// Keeps the higher of two measurements of every ceiling.
void raise_ceilings(Machine& machine, const Machine& again);

using Counters = std::vector<std::pair<std::string, double>>;

/// Everything that is known of a row besides its time, by name; README and plots use the same
/// names.
Counters counters_of(const Row& row);

/// What the repetitions of a row come to beside the peak and beside the peers among `rows`.
Counters summary_of(const Row& row, const std::vector<Row>& rows, const Machine& machine);

/// Results in Google Benchmark's JSON, written anew after every shape.
class JsonFile {
 public:
  using Runs = std::vector<benchmark::BenchmarkReporter::Run>;

  /// Throws Refusal(cannot_write) now rather than after an hour of measuring.
  explicit JsonFile(std::string path) : file_("--json", std::move(path)) {}

  /// Throws Refusal(cannot_write).
  void add(const Runs& runs);

 private:
  WholeFile file_;
  Runs runs_;
};

/// Settings, ceilings and facts as the context of a JSON file, in order.
std::vector<std::pair<std::string, std::string>> context_of(const Options& options,
                                                            const Machine& machine);

/// Times rows, one shape after the other. A program has one, because Google Benchmark's settings
/// and context are global.
class Timer {
 public:
  /// Throws Refusal(bad_usage) for a --benchmark_ flag that Google Benchmark does not know.
  /// `measure_again` is asked for the ceilings once more where a rate exceeds them: a clock that
  /// moves in steps may have stood lower when they were first measured. `machine` keeps the higher.
  Timer(const Options& options, Machine& machine, JsonFile& json,
        std::function<Machine()> measure_again);

  /// Times every row that is well, in random order, and writes the JSON; nothing of that with
  /// --check-only. A row with an impossible rate fails and leaves no record. `say` is told what is
  /// going on.
  void measure(std::vector<Row>& rows, Backend& backend,
               const std::function<void(const std::string&)>& say);

 private:
  const Options& options_;
  Machine& machine_;
  JsonFile& json_;
  std::function<Machine()> measure_again_;
};

}  // namespace gemm
