// An index beyond the dynamic shared memory that the launch asked for.
#include "common/launch.hpp"
#include "tests/faults/faults.hpp"

namespace gemm::faults {
namespace {

__global__ void kernel(const float* in, float* out) {
  __shared__ float tile[64];
  const int tid = threadIdx.x;
  tile[tid] = in[tid];
  dynamic_shared[tid + 1] = in[tid];  // fault:
  __syncthreads();
  out[tid] = tile[63 - tid];
}

}  // namespace

Run dynamic_shared_outside(const float* in, float* out) {
  return launch(kernel, Grid{1, 64, 64 * sizeof(float)}, in, out);
}

}  // namespace gemm::faults
