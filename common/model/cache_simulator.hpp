// Caches executed access by access: what the formulas of cache.hpp are held against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/gemm.hpp"

namespace gemm {

/// Caches one behind the other, each set-associative with LRU replacement. A level sees what missed
/// in the level before it. Loads and stores are treated alike (write-allocate); lines written back
/// are not counted.
class CacheSimulator {
 public:
  /// Nearest level first. Throws std::invalid_argument unless all lines are equally long, a power
  /// of two, and the lines of each cache divide evenly into sets of `ways`.
  explicit CacheSimulator(const std::vector<Cache>& caches);

  /// A load or store of `bytes` bytes, which may cross lines.
  void access(std::uintptr_t address, int bytes) {
    const std::uint64_t first = address >> line_shift_;
    const std::uint64_t last = (address + bytes - 1) >> line_shift_;
    for (std::uint64_t line = first; line <= last; ++line)
      for (Level& level : levels_)
        if (level.touch(line)) break;
    ++accesses_;
  }

  /// Lines that level 0, 1, .. did not hold when they were asked for.
  std::int64_t misses(std::size_t level) const { return levels_.at(level).misses; }
  std::int64_t accesses() const { return accesses_; }

 private:
  // Each set lists its lines, the most recently used one first.
  struct Level {
    std::vector<std::uint64_t> lines;
    std::uint64_t set_mask = 0;
    std::size_t ways = 1;
    std::int64_t misses = 0;

    // True when the line was there. It is the most recently used one afterwards.
    bool touch(std::uint64_t line) {
      std::uint64_t* const set = &lines[(line & set_mask) * ways];
      return set[0] == line || touch_deeper(set, line);
    }
    bool touch_deeper(std::uint64_t* set, std::uint64_t line);
  };

  std::vector<Level> levels_;
  int line_shift_ = 0;
  std::int64_t accesses_ = 0;
};

}  // namespace gemm
