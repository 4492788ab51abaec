// One element of a tile is left out.
#include "common/launch.hpp"
#include "tests/faults/faults.hpp"

namespace gemm::faults {
namespace {

__global__ void kernel(const float* in, float* out) {
  __shared__ float tile[64];
  const int tid = threadIdx.x;
  if (tid != 40) tile[tid] = in[tid];
  __syncthreads();
  out[tid] = tile[tid];  // fault:
}

}  // namespace

Run uninitialised_shared(const float* in, float* out) {
  return launch(kernel, Grid{1, 64}, in, out);
}

}  // namespace gemm::faults
