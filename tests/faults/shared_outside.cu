// The last thread writes past the end of a tile.
#include "common/launch.hpp"
#include "tests/faults/faults.hpp"

namespace gemm::faults {
namespace {

__global__ void kernel(const float* in, float* out) {
  __shared__ float tile[64];
  const int tid = threadIdx.x;
  tile[tid + 1] = in[tid];  // fault:
  __syncthreads();
  out[tid] = tile[(tid + 1) % 64];
}

}  // namespace

Run shared_outside(const float* in, float* out) { return launch(kernel, Grid{1, 64}, in, out); }

}  // namespace gemm::faults
