// A peer on several threads is timed in a process of its own: the idle threads of one library spin
// for a while before they sleep, and would take the cores from whatever runs next.
#pragma once

#include <vector>

#include "common/backend.hpp"
#include "common/options.hpp"
#include "common/row.hpp"

namespace gemm {

/// Seconds of one run, and the FLOP/s of FMAs just before it.
struct Repetition {
  double seconds, peak;
};

/// Runs this program once more, with --seconds-only, for one peer at one shape, and waits for it.
/// Throws Refusal(device_error) when that fails.
std::vector<Repetition> measure_apart(const Options& options, const Row& peer);

/// The other end: prints the repetitions of the peers at every shape, a line each.
Exit print_repetitions(const Options& options, Backend& backend, const std::vector<Kernel>& peers);

}  // namespace gemm
