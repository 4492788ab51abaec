// The occupancy model against what the CUDA runtime says of the GPU that answers.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "common/model/occupancy.hpp"

namespace gemm {
namespace {

__global__ void light(float* out) { out[blockIdx.x * blockDim.x + threadIdx.x] = 1; }

// Unrolled, its 64 sums need a register each.
__global__ void heavy(const float* in, float* out, int n) {
  float acc[64] = {};
  for (int i = 0; i < n; ++i)
#pragma unroll
    for (int j = 0; j < 64; ++j) acc[j] += in[i] * in[n + j];
#pragma unroll
  for (int j = 0; j < 64; ++j) out[j * blockDim.x + threadIdx.x] = acc[j];
}

class OccupancyOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
      GTEST_SKIP() << "no GPU answers";
    int major = 0, minor = 0;
    ASSERT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
    ASSERT_EQ(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), cudaSuccess);
    sm_ = multiprocessor_of(10 * major + minor);
    if (!sm_)
      GTEST_SKIP() << "the model does not know compute capability " << major << "." << minor;
  }

  template <typename KernelFunction>
  void expect_agreement(KernelFunction* kernel) {
    cudaFuncAttributes attributes{};
    ASSERT_EQ(cudaFuncGetAttributes(&attributes, kernel), cudaSuccess);
    const int most = sm_->shared_bytes - sm_->shared_reserved_bytes;
    ASSERT_EQ(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most),
              cudaSuccess);
    for (int threads : {32, 64, 96, 128, 256, 512})
      for (int shared : {0, 1000, 4 << 10, 16 << 10, 48 << 10, most}) {
        int blocks = -1;
        ASSERT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared),
                  cudaSuccess);
        EXPECT_EQ(
            occupancy({.threads = threads, .registers = attributes.numRegs, .shared_bytes = shared},
                      *sm_)
                .blocks,
            blocks)
            << threads << " threads, " << attributes.numRegs << " registers, " << shared
            << " bytes";
      }
  }

  std::optional<Multiprocessor> sm_;
};

TEST_F(OccupancyOnGpu, OfALightKernel) { expect_agreement(light); }
TEST_F(OccupancyOnGpu, OfAHeavyKernel) { expect_agreement(heavy); }

TEST_F(OccupancyOnGpu, TheMultiprocessorIsTheOneInTheTable) {
  cudaDeviceProp device{};
  ASSERT_EQ(cudaGetDeviceProperties(&device, 0), cudaSuccess);
  EXPECT_EQ(sm_->warps * 32, device.maxThreadsPerMultiProcessor);
  EXPECT_EQ(sm_->blocks, device.maxBlocksPerMultiProcessor);
  EXPECT_EQ(sm_->shared_bytes, static_cast<int>(device.sharedMemPerMultiprocessor));
  EXPECT_EQ(sm_->shared_reserved_bytes, static_cast<int>(device.reservedSharedMemPerBlock));
}

}  // namespace
}  // namespace gemm
