// Kernels with exactly one planted fault each. Their tests know the lines by the comments
// "fault:" and "other:" in the kernel's file.
#pragma once

#include "common/gemm.hpp"

namespace gemm::faults {

/// A kernel over `in` (at least 64 floats) and `out`, launched with what its fault needs.
using Prepare = Run (*)(const float* in, float* out);

Run missing_first_barrier(const float* in, float* out);
Run missing_second_barrier(const float* in, float* out);
Run global_read_outside(const float* in, float* out);
Run global_write_outside(const float* in, float* out);
Run shared_outside(const float* in, float* out);
Run dynamic_shared_outside(const float* in, float* out);
Run uninitialised_shared(const float* in, float* out);
Run misaligned_float4(const float* in, float* out);
Run divergent_barrier(const float* in, float* out);
Run returned_before_barrier(const float* in, float* out);
Run async_not_waited(const float* in, float* out);
Run missing_warp_barrier(const float* in, float* out);
Run deep_stack(const float* in, float* out);

}  // namespace gemm::faults
