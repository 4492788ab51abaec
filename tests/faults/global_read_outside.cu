// The last thread reads one element too far.
#include "common/launch.hpp"
#include "tests/faults/faults.hpp"

namespace gemm::faults {
namespace {

__global__ void kernel(const float* in, float* out) {
  const int tid = threadIdx.x;
  out[tid] = in[tid + 1];  // fault:
}

}  // namespace

Run global_read_outside(const float* in, float* out) {
  return launch(kernel, Grid{1, 64}, in, out);
}

}  // namespace gemm::faults
