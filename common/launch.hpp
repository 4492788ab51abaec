// The one place that launches a kernel: sets its attributes, starts it, and checks for errors.
// The same call runs a kernel on a GPU (compiled by nvcc) or on the emulator (compiled by g++).
#pragma once

#include <cstdint>
#include <string>

#include "common/error.hpp"
#include "common/gemm.hpp"

#if defined(GEMM_EMULATOR)
#include "common/simt/cuda.hpp"
#else
#include <cuda_runtime.h>
#endif

namespace gemm {

/// A one-dimensional grid. `blocks` may exceed what one launch takes in y or z (65535), which is
/// why tiles are numbered along x; at most 2^31 - 1.
struct Grid {
  std::int64_t blocks;
  int threads;
  int dynamic_shared_bytes = 0;
  int cluster = 1;  ///< so many neighbouring blocks run at once and see each other's shared memory
  bool early = false;  ///< starts before the kernel before it is over, and waits by itself
};

/// The dynamic shared memory of a block, Grid::dynamic_shared_bytes of it. Unlike the arrays that a
/// kernel declares, it may exceed 48 KB. Its alignment is what the copy engine asks of a box.
alignas(128) extern __shared__ float dynamic_shared[];

/// Runs one after another on a stream; the footprint is that of `last`.
inline Run in_order(const std::vector<Run>& before, const Run& last) {
  return {[=](Stream stream) {
            for (const Run& run : before) run.start(stream);
            last.start(stream);
          },
          last.footprint};
}

/// One block per BM x BN tile of C.
constexpr Grid grid_of(Shape s, Tile t) {
  return {std::int64_t{1} * ceil_div(s.M, t.BM) * ceil_div(s.N, t.BN), t.threads()};
}

/// Throws Refusal for more blocks than a launch takes.
inline void check(Grid grid) {
  if (grid.blocks > INT32_MAX)
    throw Refusal(Exit::unsupported, "more than 2^31 - 1 tiles: choose a smaller size");
}

#if defined(GEMM_EMULATOR)
inline namespace emulator {

/// Multiprocessors of the GPU; the emulator stands for one as large as an H200.
inline int multiprocessors() { return 132; }

/// Of Grid::early; the emulator runs one kernel after another.
inline void let_next_kernel_start() {}
inline void wait_for_kernel_before() {}

/// Sets up a kernel to be executed by the emulator. Throws Refusal for a grid it cannot take;
/// started, it throws simt::Fault at the first race, bad address or bad barrier.
template <typename... Parameters, typename... Arguments>
Run launch(void (*kernel)(Parameters...), Grid grid, Arguments... arguments) {
  check(grid);
  if (grid.threads > 1024)
    throw Refusal(Exit::device_error, std::to_string(grid.threads) +
                                          " threads in a block, of at most 1024: choose a tile "
                                          "with fewer");
  const std::int64_t shared_bytes =
      simt::static_shared_bytes(reinterpret_cast<void*>(kernel)) + grid.dynamic_shared_bytes;
  if (shared_bytes > simt::max_shared_bytes)
    throw Refusal(Exit::device_error, std::to_string(shared_bytes) +
                                          " bytes of shared memory in a block, of at most " +
                                          std::to_string(simt::max_shared_bytes) +
                                          ": choose a smaller tile or fewer stages");
  return {[=](Stream) {
            simt::launch(reinterpret_cast<void*>(kernel), grid.blocks, grid.threads,
                         grid.dynamic_shared_bytes, [=] { kernel(arguments...); });
          },
          {.threads = grid.threads, .shared_bytes = shared_bytes, .blocks = grid.blocks}};
}

}  // namespace emulator
#else
inline namespace cuda {

inline void check(cudaError_t status, const char* doing) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // or whoever asks for it next would be blamed for it
  throw Refusal(Exit::device_error, std::string(doing) + ": " + cudaGetErrorString(status));
}

inline int attribute_of_gpu(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  check(cudaGetDevice(&device), "choosing the GPU");
  check(cudaDeviceGetAttribute(&value, attribute, device), "asking the GPU what it is");
  return value;
}

/// Multiprocessors of the current GPU.
inline int multiprocessors() { return attribute_of_gpu(cudaDevAttrMultiProcessorCount); }

/// The next kernel on the stream, if its grid is `early`, may start as soon as all blocks of this one
/// have come here. PTX ISA, griddepcontrol; from compute capability 9.0 on.
__device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// Waits until the kernel before this one on the stream is over, and what it wrote can be seen: an
/// early kernel reads and writes nothing before.
__device__ __forceinline__ void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Sets up a kernel to be launched on the current GPU. Throws Refusal when the GPU cannot hold it,
/// and at each start when the launch fails.
template <typename... Parameters, typename... Arguments>
Run launch(void (*kernel)(Parameters...), Grid grid, Arguments... arguments) {
  check(grid);
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel), "reading the kernel's attributes");
  if (grid.dynamic_shared_bytes > 0)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               grid.dynamic_shared_bytes),
          "raising the kernel's shared memory limit");
  grid.early = grid.early && attribute_of_gpu(cudaDevAttrComputeCapabilityMajor) >= 9;
  return {[=](Stream stream) {
            if (grid.blocks == 0) return;
            cudaLaunchAttribute attributes[2]{};
            cudaLaunchConfig_t configuration{};
            configuration.gridDim = static_cast<unsigned>(grid.blocks);
            configuration.blockDim = grid.threads;
            configuration.dynamicSmemBytes = grid.dynamic_shared_bytes;
            configuration.stream = stream;
            configuration.attrs = attributes;
            if (grid.cluster > 1) {
              cudaLaunchAttribute& cluster = attributes[configuration.numAttrs++];
              cluster.id = cudaLaunchAttributeClusterDimension;
              cluster.val.clusterDim = {static_cast<unsigned>(grid.cluster), 1, 1};
            }
            if (grid.early) {
              cudaLaunchAttribute& early = attributes[configuration.numAttrs++];
              early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
              early.val.programmaticStreamSerializationAllowed = 1;
            }
            check(cudaLaunchKernelEx(&configuration, kernel, Parameters(arguments)...),
                  "launching the kernel");
          },
          {.threads = grid.threads,
           .registers = attributes.numRegs,
           .shared_bytes =
               static_cast<std::int64_t>(attributes.sharedSizeBytes) + grid.dynamic_shared_bytes,
           .blocks = grid.blocks}};
}

}  // namespace cuda
#endif

}  // namespace gemm
