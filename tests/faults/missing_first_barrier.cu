// A tile is used before all of it is there.
#include "common/launch.hpp"
#include "tests/faults/faults.hpp"

namespace gemm::faults {
namespace {

__global__ void kernel(const float* in, float* out) {
  __shared__ float tile[64];
  const int tid = threadIdx.x;
  tile[tid] = in[tid];  // fault:
  out[tid] = tile[63 - tid];  // other:
}

}  // namespace

Run missing_first_barrier(const float* in, float* out) {
  return launch(kernel, Grid{1, 64}, in, out);
}

}  // namespace gemm::faults
