// How a program of the course stops when it cannot go on: one clear line and an exit code.
#pragma once

#include <stdexcept>
#include <string>

namespace gemm {

/// Exit codes of every executable. 0: something ran, and everything that ran was proved right.
enum class Exit {
  ok = 0,
  wrong_result = 1,
  bad_usage = 2,
  unsupported = 3,
  no_device = 4,
  no_memory = 5,
  device_error = 6,
  impossible_rate = 7,
  cannot_write = 8,
  cannot_read = 9,
};

/// Something that cannot be done. `what()` is one line: what is wrong, and how to mend it.
class Refusal : public std::runtime_error {
 public:
  Refusal(Exit code, const std::string& line) : std::runtime_error(line), code(code) {}
  Exit code;
};

}  // namespace gemm
