// Lanes of a warp trade values with no __syncwarp between.
#include "common/launch.hpp"
#include "tests/faults/faults.hpp"

namespace gemm::faults {
namespace {

__global__ void kernel(const float* in, float* out) {
  __shared__ float tile[32];
  const int tid = threadIdx.x;
  tile[tid] = in[tid];
  __syncwarp();
  const float x = tile[31 - tid];  // fault:
  tile[tid] = x;  // other:
  __syncwarp();
  out[tid] = tile[tid];
}

}  // namespace

Run missing_warp_barrier(const float* in, float* out) {
  return launch(kernel, Grid{1, 32}, in, out);
}

}  // namespace gemm::faults
