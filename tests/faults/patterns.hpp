// Kernels without fault whose counts are known by hand.
#pragma once

#include "common/gemm.hpp"

namespace gemm::faults {

Run load_floats(const float* in, float* out, int stride);
Run load_float2s(const float* in, float* out, int stride);
Run load_float4s(const float* in, float* out, int stride);
Run load_shared(const float* in, float* out, int stride);
Run load_shared_vectors(const float* in, float* out, int sharing);
Run diverge(const float* in, float* out);
Run fill_log(const float* in, float* out, int turns);
Run sum_warps(const float* in, float* out);
Run reverse_dynamic_shared(const float* in, float* out, int floats);
Run copy_stages(const float* in, float* out);

}  // namespace gemm::faults
