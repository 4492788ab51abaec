// The first thread writes before the first element.
#include "common/launch.hpp"
#include "tests/faults/faults.hpp"

namespace gemm::faults {
namespace {

__global__ void kernel(const float* in, float* out) {
  const int tid = threadIdx.x;
  const float x = in[tid];
  out[tid - 1] = x;  // fault:
}

}  // namespace

Run global_write_outside(const float* in, float* out) {
  return launch(kernel, Grid{1, 64}, in, out);
}

}  // namespace gemm::faults
