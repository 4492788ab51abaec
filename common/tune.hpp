// The autotuner: which of a step's candidates is fastest on this device, for which shapes.
#pragma once

#include <string>
#include <vector>

#include "common/gemm.hpp"
#include "common/options.hpp"
#include "common/row.hpp"
#include "common/whole_file.hpp"

namespace gemm {

/// The best candidate of a shape class.
struct Choice {
  int shape_class;
  std::string kernel;
  double gflops;  ///< geometric mean over the class's shapes
};

/// The rows that may be chosen: right to the last bit on integers, right on the operands that were
/// timed, and timed.
bool eligible(const Row& row);

/// The tables of several shapes, each with the same candidates, boiled down to a choice for every
/// class: the candidate with the highest geometric mean of its rates, among those that were eligible
/// at all of the class's shapes and failed at no other. Classes where none was are left out.
std::vector<Choice> choose(const std::vector<std::vector<Row>>& tables);

/// Fastest first; rows without a rate come last, in the order they had.
void sort_by_rate(std::vector<Row>& rows);

/// {"step": .., "device": .., "best": [{"class": 1024, "kernel": .., "gflops": ..}]}
std::string to_json(const std::string& step, const std::string& device,
                    const std::vector<Choice>& choices);

/// Reads it back. Throws Refusal(cannot_read) for a file that is not there, is not such JSON, was
/// tuned for another step or device, or names a kernel that is no candidate of the step.
std::vector<Choice> read_choices(const std::string& path, const Step& step,
                                 const std::string& device);

/// The row "tuned": for every shape the candidate that was chosen for its class.
Kernel tuned_kernel(const Step& step, const std::vector<Choice>& choices);

/// What --tune and --tuned do in a program; without either it does nothing.
class Tuning {
 public:
  /// Adds the row of --tuned to `options`. Throws Refusal(cannot_read), and Refusal(cannot_write) now
  /// rather than after an hour of measuring.
  Tuning(Options& options, std::string device);
  Tuning(const Tuning&) = delete;
  Tuning& operator=(const Tuning&) = delete;

  /// Sorts the candidates of a shape by rate, writes the file anew, and returns the rows.
  const std::vector<Row>& add(std::vector<Row>& rows);

  /// Prints what the file holds: what was chosen now, or what the row of --tuned went by.
  void close() const;

 private:
  const Options& options_;
  std::string device_;
  WholeFile file_;
  std::vector<std::vector<Row>> tables_;
  std::vector<Choice> choices_;
  Kernel tuned_;
};

}  // namespace gemm
