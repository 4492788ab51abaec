// Copies of operands whose rows do not start at multiples of 16 bytes: the same rows, further apart.
#pragma once

#include <memory>

#include "common/launch.hpp"
#include "common/workspace.hpp"
#include "steps/16_gpu_fp32_peak/thread_tile.hpp"

namespace gemm {
namespace {

// A matrix in memory: rows x columns, `ld` floats from row to row.
struct Rows {
  const float* from;
  std::int64_t ld;
  int rows, columns;
};

// Where it is copied to; no blocks where there is nothing to do.
struct AlignedCopy {
  Rows matrix;
  float* to;
  std::int64_t pitch, blocks;
};

constexpr int align_threads = 256, align_part = 8 * align_threads;  // floats that a block copies

__global__ void __launch_bounds__(align_threads) align(const AlignedCopy a, const AlignedCopy b) {
  let_next_kernel_start();
  const bool first = blockIdx.x < a.blocks;
  const AlignedCopy& copy = first ? a : b;
  const std::int64_t block = blockIdx.x - (first ? 0 : a.blocks);
  const int parts = ceil_div(copy.matrix.columns, align_part);
  const std::int64_t r = block / parts;
  const int c0 = block % parts * align_part + threadIdx.x;
  const float* const from = copy.matrix.from + r * copy.matrix.ld;
  float* const to = copy.to + r * copy.pitch;
#pragma unroll
  for (int i = 0; i < align_part; i += align_threads)
    if (c0 + i < copy.matrix.columns) to[c0 + i] = from[c0 + i];
  // The kernel before has nothing to do with this one; but who waits for this one waits for both.
  if (blockIdx.x == 0) wait_for_kernel_before();
}

/// Rows that start at multiples of 16 bytes: those of the matrix itself, or of a copy.
struct Aligned {
  Rows rows;
  AlignedCopy copy{};
  std::shared_ptr<Workspace> memory{};
};

inline Aligned aligned_rows(const Rows& matrix) {
  if (rows_start_aligned(matrix.from, matrix.ld)) return {matrix};
  const std::int64_t pitch = std::int64_t{ceil_div(matrix.columns, 32)} * 32;  // whole cache lines
  const auto memory = std::make_shared<Workspace>(std::size_t(matrix.rows) * pitch);
  const std::int64_t blocks = std::int64_t{matrix.rows} * ceil_div(matrix.columns, align_part);
  return {{memory->data(), pitch, matrix.rows, matrix.columns},
          {matrix, memory->data(), pitch, blocks},
          memory};
}

/// The copies that A and B are, if any, in one launch; `beside` the kernel before it, which must be one
/// of the same multiplication.
inline Run align_rows(const Aligned& A, const Aligned& B, bool beside) {
  const Grid grid{
      .blocks = A.copy.blocks + B.copy.blocks, .threads = align_threads, .early = beside};
  return launch(align, grid, A.copy, B.copy);
}

/// Bytes that copying a dense rows x columns matrix asks for.
inline Traffic align_traffic(std::int64_t rows, std::int64_t columns, std::int64_t ld) {
  const std::int64_t moved = ld % 4 != 0 ? 4 * rows * columns : 0;
  return {.global_loaded = moved, .global_stored = moved};
}

}  // namespace
}  // namespace gemm
