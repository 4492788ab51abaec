// Some threads return before a barrier that the others wait at.
#include "common/launch.hpp"
#include "tests/faults/faults.hpp"

namespace gemm::faults {
namespace {

__global__ void kernel(const float* in, float* out) {
  const int tid = threadIdx.x;
  if (tid >= 50) return;
  out[tid] = in[tid];
  __syncthreads();  // fault:
}

}  // namespace

Run returned_before_barrier(const float* in, float* out) {
  return launch(kernel, Grid{2, 64}, in, out);
}

}  // namespace gemm::faults
