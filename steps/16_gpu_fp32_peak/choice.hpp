// Which kernel for which shape: a few rules, each with its reason.
#pragma once

#include "common/gemm.hpp"

namespace gemm {

/// How many columns of C are better multiplied apart than by tiles of BN columns: a few, which would
/// fill one more column of tiles with next to nothing.
constexpr int few = 4;
constexpr int columns_apart(int N, int BN) { return N > BN && N % BN <= few ? N % BN : 0; }

/// The kernels of this step.
enum class Plan { packed, in_place, in_cluster, portable_large, portable_small };

/// The plan for a shape on a GPU with so many multiprocessors; `hopper`: it has the copy engine, and
/// this build has the kernels that use it.
constexpr Plan plan_for(Shape s, int multiprocessors, bool hopper) {
  const int apart = hopper ? columns_apart(s.N, 128) : 0;
  const std::int64_t tiles = std::int64_t{1} * ceil_div(s.M, 128) * ceil_div(s.N - apart, 128);
  // Of few tiles, four times as many of 64 x 64 keep more multiprocessors busy.
  if (tiles * 5 < multiprocessors) return Plan::portable_small;
  // A cluster of two for each tile has to fill the GPU; where it does not, tiles are cut finer.
  if (!hopper || s.K == 0 || tiles * 8 < 3 * multiprocessors) return Plan::portable_large;
  if (tiles * 2 <= multiprocessors) return Plan::in_cluster;
  // Each element of A that is packed is used N times afterwards: that costs some 55 / N of the time.
  // To copy A in place takes 1 to 2 %.
  if (s.N >= 4000 && s.K >= 1024) return Plan::packed;
  return Plan::in_place;
}

}  // namespace gemm
