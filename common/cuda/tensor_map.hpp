// The description of a matrix that the copy engine of compute capability 9.0 works from.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstdint>

#include "common/launch.hpp"

namespace gemm {

/// A row-major fp32 matrix, rows x columns, `pitch` floats from row to row, copied in boxes of
/// box_rows x box_columns that need not fit: what lies outside arrives as zero. The matrix starts
/// at a multiple of 16 bytes and pitch % 4 == 0; a box has at most 256 rows and columns. Throws
/// Refusal when the driver does not take it. (CUDA driver API, Tensor Map Object Management.)
inline CUtensorMap tensor_map(const float* matrix, int rows, int columns, std::int64_t pitch,
                              int box_rows, int box_columns) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault,
                                         &found),
        "asking the driver for tensor maps");
  if (found != cudaDriverEntryPointSuccess)
    throw Refusal(Exit::unsupported, "the driver knows no tensor maps: update it");
  const auto encode = reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(entry);

  CUtensorMap map{};
  const cuuint64_t extents[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t pitches[] = {static_cast<cuuint64_t>(pitch) * sizeof(float)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(box_columns),
                            static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t every[] = {1, 1};
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, const_cast<float*>(matrix), extents, pitches,
             box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    throw Refusal(Exit::device_error,
                  "the driver refuses a tensor map, error " + std::to_string(status));
  return map;
}

}  // namespace gemm
