// What one run was seen to do, access by access, where the device counts instead of being timed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/gemm.hpp"

namespace gemm {

/// Instructions that a whole warp issues together, and how many pieces memory served them in:
/// 32-byte sectors of global memory, wavefronts of shared memory.
struct WarpAccesses {
  std::int64_t requests = 0, pieces = 0;
  double pieces_per_request() const { return requests ? double(pieces) / requests : 0; }
};

/// A simulated cache, "L1" or "L2", and the lines that it had to fetch.
struct CacheCount {
  std::string name;
  Cache cache;
  std::int64_t misses = 0;
};

struct Counts {
  Traffic requested{};  ///< bytes that the code asked for at each level
  WarpAccesses global_loads{}, global_stores{}, shared_loads{}, shared_stores{};
  std::int64_t barriers = 0;  ///< of all blocks together

  /// CPU steps: loads and stores, and what each simulated cache made of them, nearest first.
  std::int64_t accesses = 0;
  std::vector<CacheCount> caches{};
};

}  // namespace gemm
