// Which kernel for which shape: a few rules, each with its reason.
#pragma once

#include "common/gemm.hpp"

namespace gemm {

/// How many columns of C are better multiplied apart than by tiles of BN columns: a few, which would
/// fill one more column of tiles with next to nothing.
constexpr int few = 4;
constexpr int columns_apart(int N, int BN) { return N > BN && N % BN <= few ? N % BN : 0; }

/// The kernels of this step.
enum class Plan { wide, square, portable_large, portable_small };

/// The plan for a shape on a GPU with so many multiprocessors; `hopper`: it has the copy engine, and
/// this build has the kernels that use it.
constexpr Plan plan_for(Shape s, int multiprocessors, bool hopper) {
  const auto tiles_of = [&](int BM, int BN) {
    const int apart = hopper ? columns_apart(s.N, BN) : 0;
    return std::int64_t{1} * ceil_div(s.M, BM) * ceil_div(s.N - apart, BN);
  };
  const std::int64_t tiles = tiles_of(128, 128);
  // Of few tiles, four times as many of 64 x 64 keep more multiprocessors busy.
  if (tiles * 5 < multiprocessors) return Plan::portable_small;
  // A cluster of two for each tile has to fill the GPU; where it does not, tiles are cut finer.
  if (!hopper || s.K == 0 || tiles * 8 < 3 * multiprocessors) return Plan::portable_large;
  // Square tiles where two blocks can share one, and where wide ones would be far from full: a wide one
  // is the work of two, at a rate that is some 5 % higher, and can be cut.
  if (tiles * 2 <= multiprocessors || tiles * 13 < tiles_of(128, 256) * 24) return Plan::square;
  return Plan::wide;
}

}  // namespace gemm
