// How fast this CPU's tile registers multiply: the roof of a step that uses them.
#pragma once

#include <algorithm>
#include <chrono>

#include "common/amx/tile.hpp"
#include "common/simd.hpp"

namespace gemm {

/// FLOP/s, at this moment, of so many threads that multiply tiles again and again and load none; 0
/// where there are no tile registers.
inline double tile_peak(int threads) {
  if (!why_no_tiles().empty()) return 0;
  constexpr int rounds = 20000, windows = 5, sums = 4;
  constexpr double flops = 2.0 * sums * rounds * tile_rows * tile_rows * tile_depth;
  using Clock = std::chrono::steady_clock;
  double rate = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : rate)
  for (int thread = 0; thread < threads; ++thread) {
    Tiles tiles;
    unroll<8>([&](auto i) { tiles.zero<i>(); });
    double best = 0;
    for (int window = 0; window < windows; ++window) {
      const auto start = Clock::now();
      for (int i = 0; i < rounds; ++i)
        unroll<sums>([&](auto sum) { tiles.multiply_add<sum, 4 + sum / 2, 6 + sum % 2>(); });
      best = std::max(best, flops / std::chrono::duration<double>(Clock::now() - start).count());
    }
    rate += best;
  }
  return rate;
}

}  // namespace gemm
