// Four floats from an address that is no multiple of 16.
#include "common/launch.hpp"
#include "tests/faults/faults.hpp"

namespace gemm::faults {
namespace {

__global__ void kernel(const float* in, float* out) {
  const int tid = threadIdx.x;
  const float4 v = *reinterpret_cast<const float4*>(in + 3 * tid);  // fault:
  out[tid] = v.x + v.w;
}

}  // namespace

Run misaligned_float4(const float* in, float* out) { return launch(kernel, Grid{1, 8}, in, out); }

}  // namespace gemm::faults
