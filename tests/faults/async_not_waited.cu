// A copy is used when it was only asked for.
#include "common/launch.hpp"
#include "tests/faults/faults.hpp"

namespace gemm::faults {
namespace {

__global__ void kernel(const float* in, float* out) {
  alignas(16) __shared__ float tile[64];
  const int tid = threadIdx.x;
  __pipeline_memcpy_async(&tile[tid * 4], in + tid * 4, 16);  // other:
  __pipeline_commit();
  out[tid] = tile[tid * 4];  // fault:
  __pipeline_wait_prior(0);
}

}  // namespace

Run async_not_waited(const float* in, float* out) { return launch(kernel, Grid{1, 16}, in, out); }

}  // namespace gemm::faults
