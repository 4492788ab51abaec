// A list of tiles, made into the kernels that --tune chooses from.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/gemm.hpp"
#include "common/model/occupancy.hpp"
#include "common/model/traffic.hpp"

namespace gemm {

/// Why a tile cannot become a kernel.
enum class Misfit { none, threads, share, shared_memory, registers };

/// What a block of a tile is expected to take, with `stages` slices in shared memory and one more on
/// its way through registers. A thread's registers hold its sums, the operands of one k and of the
/// next, its part of that slice, and some 32 addresses and counters.
constexpr Footprint expected_footprint(Tile t, int stages) {
  const int slice = (t.BM + t.BN) * t.BK;
  return {.threads = t.threads(),
          .registers = t.TM * t.TN + 2 * (t.TM + t.TN) + slice / t.threads() + 32,
          .shared_bytes = std::int64_t{4} * stages * slice};
}

/// Registers that a thread gets at most where `blocks` blocks of a tile shall be resident together.
constexpr int registers_at_most(Tile t) {
  const int share = register_file / (t.threads() * t.blocks) / 8 * 8;
  return share < max_registers_per_thread ? share : max_registers_per_thread;
}

/// The first reason that a tile gives for being refused, by the model of occupancy, on any GPU: every
/// thread must carry the same number of 16-byte loads of a slice, and a block must fit.
constexpr Misfit misfit_of(Tile t, int stages) {
  const Footprint expected = expected_footprint(t, stages);
  if (expected.threads > max_threads_per_block) return Misfit::threads;
  if (t.BM * t.BK / 4 % expected.threads != 0 || t.BN * t.BK / 4 % expected.threads != 0)
    return Misfit::share;
  if (expected.shared_bytes > max_static_shared_bytes) return Misfit::shared_memory;
  if (expected.registers > registers_at_most(t)) return Misfit::registers;
  return Misfit::none;
}

/// The same in words: "needs 96 KiB of shared memory, 48 at most"; empty where the tile fits.
std::string refusal(Tile tile, int stages);

/// A row that stands for a tile of which no kernel was made: it refuses every shape.
Kernel refused(Tile tile, int stages);

/// Rows for a constexpr array of tiles, in order. `prepare_of(tile)` gives what prepares the kernel of
/// the tile `tile()`, a constant; it is asked, and a kernel compiled, only for those that fit.
template <const auto& tiles, int stages, typename PrepareOf>
std::vector<Kernel> candidates(PrepareOf prepare_of) {
  const auto row = [&]<std::size_t i>() -> Kernel {
    constexpr Tile T = tiles[i];
    if constexpr (misfit_of(T, stages) == Misfit::none)
      return {to_string(T), prepare_of(std::integral_constant<Tile, T>{}), tiled_traffic(T), T};
    else
      return refused(T, stages);
  };
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    return std::vector<Kernel>{row.template operator()<i>()...};
  }
  (std::make_index_sequence<tiles.size()>());
}

}  // namespace gemm
