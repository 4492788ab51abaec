// Half of the block waits at one barrier, half at another.
#include "common/launch.hpp"
#include "tests/faults/faults.hpp"

namespace gemm::faults {
namespace {

__global__ void kernel(const float* in, float* out) {
  const int tid = threadIdx.x;
  if (tid < 32) {
    out[tid] = in[tid];
    __syncthreads();  // fault:
  } else {
    out[tid] = 2 * in[tid];
    __syncthreads();  // other:
  }
}

}  // namespace

Run divergent_barrier(const float* in, float* out) { return launch(kernel, Grid{1, 64}, in, out); }

}  // namespace gemm::faults
