#include "common/candidates.hpp"

#include <fmt/format.h>

namespace gemm {

std::string refusal(Tile t, int stages) {
  const Footprint expected = expected_footprint(t, stages);
  constexpr std::int64_t kib = 1024;
  switch (misfit_of(t, stages)) {
    case Misfit::threads:
      return fmt::format("has {} threads, {} at most", expected.threads, max_threads_per_block);
    case Misfit::share:
      return fmt::format("its {} threads cannot share the {} and {} loads of a slice evenly",
                         expected.threads, t.BM * t.BK / 4, t.BN * t.BK / 4);
    case Misfit::shared_memory:
      return fmt::format("needs {} KiB of shared memory, {} at most", expected.shared_bytes / kib,
                         max_static_shared_bytes / kib);
    case Misfit::registers:
      if (registers_at_most(t) == max_registers_per_thread)
        return fmt::format("needs {} registers for a thread, {} at most", expected.registers,
                           max_registers_per_thread);
      return fmt::format("{} x {} threads x {} registers > {}", t.blocks, expected.threads,
                         expected.registers, register_file);
    default:
      return {};
  }
}

Kernel refused(Tile tile, int stages) {
  return {.name = to_string(tile),
          .prepare = {},
          .traffic = {},
          .tile = tile,
          .supports = [why = refusal(tile, stages)](Shape) { return why; }};
}

}  // namespace gemm
