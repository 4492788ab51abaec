// A tile is overwritten while others still use it.
#include "common/launch.hpp"
#include "tests/faults/faults.hpp"

namespace gemm::faults {
namespace {

__global__ void kernel(const float* in, float* out) {
  __shared__ float tile[64];
  const int tid = threadIdx.x;
  float acc = 0;
  for (int k0 = 0; k0 < 128; k0 += 64) {
    tile[tid] = in[tid];  // other:
    __syncthreads();
    acc += tile[63 - tid];  // fault:
  }
  out[tid] = acc;
}

}  // namespace

Run missing_second_barrier(const float* in, float* out) {
  return launch(kernel, Grid{1, 64}, in, out);
}

}  // namespace gemm::faults
