// A row of a step's table: one kernel on one shape, filled in as it is checked, counted and timed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/backend.hpp"
#include "common/error.hpp"
#include "common/gemm.hpp"
#include "common/model/occupancy.hpp"
#include "common/options.hpp"
#include "common/verify.hpp"

namespace gemm {

/// The compute capability, times ten, that occupancy is worked out for where there is no GPU.
inline constexpr int modelled_capability = 90;

/// What stands for the step in a row that is a library and no kernel of ours.
inline constexpr const char* peer_step = "peer";

struct Row {
  std::string step;
  Kernel kernel;
  Shape shape;
  Element operands = Element::fp32;  ///< of the step; an fp32 peer has the same values widened
  /// Why there are no figures, "skipped (..)" or "FAILED: ..", and the exit code that this calls
  /// for; empty and ok while all is well.
  std::string trouble{};
  Exit exit = Exit::ok;
  Run run{};  ///< on the operands that were checked last
  bool exact = false;  ///< right to the last bit on small integers
  std::optional<Errors> errors{};  ///< on the operands that were checked last
  std::optional<Counts> counts{};
  std::optional<Occupancy> occupancy{};  ///< of a GPU's multiprocessor, by the model
  std::vector<double> seconds{};  ///< of one run, an entry for each repetition
  std::vector<double> peaks{};  ///< FLOP/s of FMAs beside each repetition; empty off the CPU

  bool is_peer() const { return step == peer_step; }
  bool well() const { return exit == Exit::ok; }
  /// Tried and found bad, where others were skipped.
  bool failed() const { return !well() && exit != Exit::unsupported && exit != Exit::no_memory; }
  void skip(Exit code, const std::string& reason);
  void fail(Exit code, const std::string& reason);
};

/// The rows of a shape: the kernels asked for, then the peers. Those that cannot run are skipped,
/// with a reason.
std::vector<Row> rows_of(const Options& options, const std::vector<Kernel>& peers, Shape shape,
                         const Backend& backend);

/// Does `work` on a row; whatever it throws is the row's own trouble.
void attempt(Row& row, const std::function<void()>& work);

/// Does `work` on the rows. When it throws Refusal for lack of memory, or for a shape that nobody
/// supports, the rows that were still well are skipped with that reason.
void attempt(std::vector<Row>& rows, const std::function<void()>& work);

/// What the options say of leading dimensions and operands.
BlasTerms terms_of(const Options& options, Shape shape);

/// Sets up, runs and checks every row that is well on these operands, and keeps what was counted.
void check(std::vector<Row>& rows, Backend& backend, Operands& operands, int threads);

/// The same on small integers, where every sum is exact and the result must be right to the bit. At
/// a K at which no integers are small enough it checks nothing.
void check_exact(std::vector<Row>& rows, Backend& backend, const BlasTerms& terms, int threads);

/// Runs the rows of a CPU step once more, as the emulator has them among `steps`, through the
/// cache simulation.
void count(std::vector<Row>& rows, const std::vector<Step>& steps, const BlasTerms& terms);

}  // namespace gemm
