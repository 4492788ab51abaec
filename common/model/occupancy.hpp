// How many blocks of a kernel a GPU's multiprocessor holds at once, and what stops the next one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/gemm.hpp"

namespace gemm {

/// What all multiprocessors of compute capability 7.0 and later have in common: so many registers,
/// in four parts, of which a warp gets 256 at a time. A block's shared memory may be larger than
/// this only where the launch asks for it.
inline constexpr int register_file = 65536;
inline constexpr int max_threads_per_block = 1024, max_registers_per_thread = 255;
inline constexpr std::int64_t max_static_shared_bytes = 48 << 10;

/// What one multiprocessor has to give besides.
struct Multiprocessor {
  int warps, blocks;
  int shared_bytes;  ///< for all blocks together
  int shared_reserved_bytes;  ///< what the driver keeps of it for each block
  int shared_unit_bytes;  ///< what a block takes is rounded up to a multiple of this
};

/// The multiprocessor of a compute capability times ten (90 for 9.0); nothing for one that is not
/// in the table. Source: CUDA Programming Guide, appendix Compute Capabilities, table Technical
/// Specifications; units of allocation as in the toolkit's cuda_occupancy.h.
std::optional<Multiprocessor> multiprocessor_of(int compute_capability);

/// Blocks and warps that are resident together. `limiter` is what runs out first: "warps",
/// "blocks", "registers" or "shared memory"; where two do, the first of these. 0 blocks: cannot be
/// launched.
struct Occupancy {
  int blocks, warps;
  double fraction;  ///< of the warps that the multiprocessor could hold
  std::string limiter;
};

/// The occupancy of a launch of `footprint.threads` >= 1 threads per block.
Occupancy occupancy(const Footprint& footprint, const Multiprocessor& multiprocessor);

}  // namespace gemm
