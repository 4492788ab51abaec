// The command line of a step: one set of flags for all of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/gemm.hpp"
#include "common/verify.hpp"

namespace gemm {

/// What the user asked for, checked and completed by defaults.
struct Options {
  const Step* step = nullptr;  ///< as built for `device`
  std::vector<const Kernel*> kernels;  ///< rows, or candidates, that --kernel selects, in order
  Device device{};
  std::vector<Shape> shapes;
  int pad = 0;  ///< elements between the end of a row of A, B or C and the next row
  Init init = Init::normal;
  int seed = 0;  ///< of the operands
  std::vector<std::string> peers;  ///< empty: whatever is usual on the device
  bool cold = false, check_only = false, count = false;
  bool seconds_only = false;  ///< prints the peers' repetitions, for the process that asked for it
  int threads = 1, repeats = 1;
  std::string json;  ///< empty: no file
  std::string tune;  ///< where the best candidates go; empty: the step's own rows run
  std::string tuned;  ///< where they are read from; empty: there is no such row
  std::vector<std::string> benchmark_flags;  ///< passed on to Google Benchmark
};

/// "cpu", "gpu", "emulator": the words of --device.
std::string name_of(Device device);

/// Reads "256,512,1024:4096:512": sizes and ranges first:last:step, in the order written.
/// Throws Refusal(bad_usage).
std::vector<int> parse_sizes(std::string_view text);

/// Reads "17x1000x1000,16:128:4": shapes MxNxK and sizes, in the order written. Throws
/// Refusal(bad_usage).
std::vector<Shape> parse_shapes(std::string_view text);

/// Whether this build has GPU code and a GPU answers.
bool gpu_answers();

/// Reads the command line of a program that holds `steps` (one step, for one or more devices).
/// Answers --help and --list itself, and then returns nothing. `gpu_answers` is only asked where
/// no --device is given. Throws Refusal(bad_usage) with one line that names the flag.
std::optional<Options> parse(const std::vector<std::string>& arguments,
                             const std::vector<Step>& steps,
                             const std::function<bool()>& gpu_answers = gemm::gpu_answers);

}  // namespace gemm
