// Bytes requested by kernels, predicted from shape and tile alone.
#pragma once

#include <functional>

#include "common/gemm.hpp"

namespace gemm {

/// Bytes that a kernel asks for where every one of its M * N * K FMAs loads both operands again.
Traffic untiled_traffic(Shape shape);

/// Bytes that a kernel with block tile BM x BN x BK and thread tile TM x TN asks for, any shape.
/// A is read once per column of tiles, B once per row of tiles, and only inside the matrices. The
/// shared tiles are always filled and used whole: past an edge they hold zeros.
Traffic tiled_traffic(Shape shape, Tile tile);

/// The same, bound to a tile: the form in which a step registers it.
inline std::function<Traffic(Shape)> tiled_traffic(Tile tile) {
  return [tile](Shape shape) { return tiled_traffic(shape, tile); };
}

/// The same for a kernel that reads fragments one k ahead, across the edges of slices too: each block
/// fills one slice more than it multiplies, with zeros, and reads one k of it. `parts`: blocks that
/// share a tile, each with as many slices of K as the others or one more.
Traffic pipelined_traffic(Shape shape, Tile tile, int parts = 1);

/// The least that any algorithm must move: each element of A, B and C once. Those of C are fp32.
/// Exact up to 2^53, and no overflow at any shape.
constexpr double compulsory_bytes(Shape s, Element operands = Element::fp32) {
  const double M = s.M, N = s.N, K = s.K;
  return (operands == Element::bf16 ? 2 : 4) * (M * K + K * N) + 4 * M * N;
}

/// 2MNK: one multiplication and one addition per term.
constexpr double flops(Shape s) { return 2.0 * s.M * s.N * s.K; }

}  // namespace gemm
