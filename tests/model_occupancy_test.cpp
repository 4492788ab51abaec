#include <gtest/gtest.h>

#include "common/model/occupancy.hpp"

#if __has_include(<cuda_occupancy.h>)
#include <cuda_occupancy.h>
#endif

namespace gemm {
namespace {

constexpr int all_capabilities[] = {70, 75, 80, 86, 89, 90, 100, 120};

Occupancy on(int capability, Footprint footprint) {
  return occupancy(footprint, multiprocessor_of(capability).value());
}

TEST(Occupancy, RegistersOf256Threads) {
  const Occupancy heavy = on(90, {.threads = 256, .registers = 128});
  EXPECT_EQ(heavy.blocks, 2);
  EXPECT_EQ(heavy.warps, 16);
  EXPECT_DOUBLE_EQ(heavy.fraction, 0.25);
  EXPECT_EQ(heavy.limiter, "registers");
  EXPECT_EQ(on(90, {.threads = 256, .registers = 96}).blocks, 2);
  EXPECT_EQ(on(90, {.threads = 256, .registers = 80}).blocks, 3);
}

TEST(Occupancy, NamesEachLimiter) {
  EXPECT_EQ(on(90, {.threads = 1024, .registers = 32}).limiter, "warps");
  EXPECT_EQ(on(90, {.threads = 32, .registers = 16}).limiter, "blocks");
  const Occupancy shared = on(90, {.threads = 256, .registers = 32, .shared_bytes = 48 << 10});
  EXPECT_EQ(shared.limiter, "shared memory");
  EXPECT_EQ(shared.blocks, 4);
}

// From 8.0 on a block of 16 KB takes 17 KB; before, 64 KB hold four of them.
TEST(Occupancy, TheDriverReservesAKilobytePerBlock) {
  const Footprint footprint{.threads = 32, .registers = 16, .shared_bytes = 16 << 10};
  EXPECT_EQ(on(75, footprint).blocks, 4);
  EXPECT_EQ(on(80, footprint).blocks, 9);
  EXPECT_EQ(on(90, footprint).blocks, 13);
}

TEST(Occupancy, WhatCannotBeLaunchedHasNoBlocks) {
  EXPECT_EQ(on(90, {.threads = 1056, .registers = 32}).blocks, 0);
  EXPECT_EQ(on(90, {.threads = 1024, .registers = 65}).blocks, 0);
  EXPECT_EQ(on(90, {.threads = 32, .registers = 256}).blocks, 0);
  EXPECT_EQ(on(86, {.threads = 32, .registers = 32, .shared_bytes = 100 << 10}).blocks, 0);
}

TEST(Occupancy, UnknownRegistersAndNoSharedMemoryLimitNothing) {
  EXPECT_EQ(on(75, {.threads = 256}).limiter, "warps");
}

TEST(Occupancy, UnknownCapabilitiesAreNotGuessed) {
  EXPECT_FALSE(multiprocessor_of(0));
  EXPECT_FALSE(multiprocessor_of(95));
  for (int capability : all_capabilities) EXPECT_TRUE(multiprocessor_of(capability));
}

#if __has_include(<cuda_occupancy.h>)
// The toolkit's own calculator, which needs no GPU.
int blocks_by_toolkit(int capability, const Footprint& footprint) {
  const Multiprocessor sm = multiprocessor_of(capability).value();
  cudaOccDeviceProp device;
  device.computeMajor = capability / 10;
  device.computeMinor = capability % 10;
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiprocessor = sm.warps * 32;
  device.regsPerBlock = device.regsPerMultiprocessor = 65536;
  device.warpSize = 32;
  device.sharedMemPerBlock = 48 << 10;
  device.sharedMemPerMultiprocessor = sm.shared_bytes;
  device.sharedMemPerBlockOptin = sm.shared_bytes - sm.shared_reserved_bytes;
  device.reservedSharedMemPerBlock = sm.shared_reserved_bytes;
  device.numSms = 1;
  cudaOccFuncAttributes function;
  function.maxThreadsPerBlock = 1024;
  function.numRegs = footprint.registers;
  function.sharedSizeBytes = 0;
  function.maxDynamicSharedSizeBytes = footprint.shared_bytes;
  function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  const cudaOccDeviceState state;
  cudaOccResult result{};
  const cudaOccError status = cudaOccMaxActiveBlocksPerMultiprocessor(
      &result, &device, &function, &state, footprint.threads, footprint.shared_bytes);
  EXPECT_EQ(status, CUDA_OCC_SUCCESS);
  return result.activeBlocksPerMultiprocessor;
}

TEST(Occupancy, AgreesWithTheToolkitsCalculator) {
  for (int capability : all_capabilities) {
    const int most_shared = multiprocessor_of(capability)->shared_bytes -
                            multiprocessor_of(capability)->shared_reserved_bytes;
    for (int threads : {1, 32, 64, 96, 128, 160, 256, 384, 512, 1000, 1024})
      for (int registers : {16, 24, 32, 40, 63, 64, 80, 96, 120, 128, 168, 255})
        for (int shared :
             {0, 4, 1000, 4 << 10, 16 << 10, 33000, 48 << 10, 64 << 10, 99 << 10, most_shared}) {
          if (shared > most_shared) continue;
          const Footprint footprint{
              .threads = threads, .registers = registers, .shared_bytes = shared};
          EXPECT_EQ(on(capability, footprint).blocks, blocks_by_toolkit(capability, footprint))
              << capability << ": " << threads << " threads, " << registers << " registers, "
              << shared << " bytes";
        }
  }
}
#endif

}  // namespace
}  // namespace gemm
