// Stops a program on a CPU that lacks what its CPU steps were compiled for: one line, where the
// first such instruction would end it with a signal.
// Steps register themselves before main, so this runs before them. It is compiled without those
// instructions, and calls no inline function: of these a program keeps one copy, anybody's.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common/error.hpp"

namespace gemm {
namespace {

constexpr int first_of_all = 101;  // lower priorities are the compiler's own

[[gnu::constructor(first_of_all)]] void require_instructions() {
  char lacking[512] = "";
  [[maybe_unused]] const auto require = [&](const char* name, bool here) {
    if (here) return;
    if (lacking[0]) strcat(lacking, ", ");
    strcat(lacking, name);
  };
  // One line for each of them: require("avx2", __builtin_cpu_supports("avx2"));
#include "instructions_required.inc"
  if (!lacking[0]) return;
  dprintf(STDERR_FILENO,
          "%s: built for a CPU with %s, which this one lacks: build it here, or with "
          "-DGEMM_MARCH=x86-64\n",
          program_invocation_name, lacking);
  _exit(static_cast<int>(Exit::unsupported));
}

}  // namespace
}  // namespace gemm
