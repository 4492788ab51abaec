#include "common/model/occupancy.hpp"

#include <climits>

namespace gemm {
namespace {

constexpr int warp_size = 32;
constexpr int register_unit = 256, partitions = 4;

constexpr int kib = 1024;

std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

// Registers belong to warps, and each partition serves a quarter of them from a file of its own.
std::int64_t blocks_by_registers(int registers, int warps) {
  if (registers == 0) return INT_MAX;
  const std::int64_t per_warp = round_up(std::int64_t{registers} * warp_size, register_unit);
  const bool launchable = registers <= max_registers_per_thread &&
                          per_warp * round_up(warps, partitions) <= register_file;
  return launchable ? register_file / partitions / per_warp * partitions / warps : 0;
}

std::int64_t blocks_by_shared_memory(std::int64_t bytes, const Multiprocessor& sm) {
  const std::int64_t taken = round_up(bytes + sm.shared_reserved_bytes, sm.shared_unit_bytes);
  return taken == 0 ? INT_MAX : sm.shared_bytes / taken;
}

}  // namespace

std::optional<Multiprocessor> multiprocessor_of(int compute_capability) {
  switch (compute_capability) {
    case 70:
      return Multiprocessor{64, 32, 96 * kib, 0, 256};
    case 75:
      return Multiprocessor{32, 16, 64 * kib, 0, 256};
    case 80:
      return Multiprocessor{64, 32, 164 * kib, 1 * kib, 128};
    case 86:
      return Multiprocessor{48, 16, 100 * kib, 1 * kib, 128};
    case 89:
      return Multiprocessor{48, 24, 100 * kib, 1 * kib, 128};
    case 90:
    case 100:
      return Multiprocessor{64, 32, 228 * kib, 1 * kib, 128};
    case 120:
      return Multiprocessor{48, 24, 100 * kib, 1 * kib, 128};
    default:
      return std::nullopt;
  }
}

Occupancy occupancy(const Footprint& footprint, const Multiprocessor& sm) {
  const int warps = ceil_div(footprint.threads, warp_size);
  struct Limit {
    const char* name;
    std::int64_t blocks;
  };
  const Limit limits[] = {
      {"warps", footprint.threads <= max_threads_per_block ? sm.warps / warps : 0},
      {"blocks", sm.blocks},
      {"registers", blocks_by_registers(footprint.registers, warps)},
      {"shared memory", blocks_by_shared_memory(footprint.shared_bytes, sm)}};
  Limit least = limits[0];
  for (const Limit& limit : limits)
    if (limit.blocks < least.blocks) least = limit;

  const int blocks = static_cast<int>(least.blocks);
  return {.blocks = blocks,
          .warps = blocks * warps,
          .fraction = static_cast<double>(blocks * warps) / sm.warps,
          .limiter = least.name};
}

}  // namespace gemm
