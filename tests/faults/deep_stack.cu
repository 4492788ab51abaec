// More local memory than a thread of the emulator has.
#include "common/launch.hpp"
#include "tests/faults/faults.hpp"

namespace gemm::faults {
namespace {

__global__ void kernel(const float* in, float* out) {
  volatile float local[1 << 14];
  for (int i = 0; i < 1 << 14; ++i) local[i] = in[i % 64];
  out[0] = local[out[1] > 0];
}

}  // namespace

Run deep_stack(const float* in, float* out) { return launch(kernel, Grid{1, 1}, in, out); }

}  // namespace gemm::faults
