// Which kernel for which shape: a few rules, each with its reason.
#pragma once

#include "common/gemm.hpp"

namespace gemm {

/// The kernels of this step.
enum class Plan { packed, in_place, in_cluster, portable_large, portable_small };

/// The plan for a shape on a GPU with so many multiprocessors; `hopper`: it has the copy engine.
constexpr Plan plan_for(Shape s, int multiprocessors, bool hopper) {
  const std::int64_t tiles = std::int64_t{1} * ceil_div(s.M, 128) * ceil_div(s.N, 128);
  // Of few tiles, four times as many of 64 x 64 keep more multiprocessors busy.
  if (tiles * 5 < multiprocessors) return Plan::portable_small;
  if (!hopper || s.K == 0) return Plan::portable_large;
  // Where two blocks can share each tile, and all run at once, a cluster adds their sums fastest.
  if (tiles * 2 <= multiprocessors && s.K >= 256) return Plan::in_cluster;
  // Each element of A that is packed is used N times afterwards: packing costs about 55 / N of the
  // time, copying A in place 1 to 2 %.
  if (s.N >= 4000 && s.K >= 1024) return Plan::packed;
  return Plan::in_place;
}

}  // namespace gemm
