// What a step prints: a heading, a table for each shape, and the exit code they add up to.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/machine.hpp"
#include "common/options.hpp"
#include "common/row.hpp"

namespace gemm {

/// The measured roof that binds a row: "arithmetic", or a level of memory. Bytes that the code asks
/// for meet the nearest level of their kind, the compulsory bytes meet memory. "-" where unknown.
std::string roof_of(const Row& row, const Machine& machine);

/// A row of ours beside a peer, at every shape where both were timed.
struct Duel {
  std::string kernel, peer;
  std::vector<Shape> shapes{};
  std::vector<double> ratios{};  ///< of our rate to the peer's
};

/// Writes to standard output, and while measuring to standard error if that is a terminal.
class Report {
 public:
  /// Prints the heading.
  Report(const Options& options, const Machine& machine, const std::vector<Kernel>& peers);

  /// Shows what is going on until the next line is printed.
  void progress(const std::string& doing);

  /// Prints the table of a shape.
  void add(const std::vector<Row>& rows);

  /// Prints how the rows compare with each peer over all shapes, where there were several, and
  /// returns the exit code.
  Exit close() const;

  /// ok when something ran and everything that ran was right; else the gravest row's code.
  /// Throws Refusal(bad_usage) when --benchmark_filter left nothing to measure.
  Exit exit_code() const;

 private:
  void print(const std::vector<Row>& rows) const;
  void print_duels() const;
  void clear_progress();

  const Options& options_;
  const Machine& machine_;
  std::vector<Exit> exits_;
  std::vector<Duel> duels_;
  bool any_ran_ = false, any_timed_ = false;
};

/// Runs the body of main. A Refusal becomes one line on standard error and its exit code.
int run_program(const std::string& name, const std::function<Exit()>& body);

}  // namespace gemm
