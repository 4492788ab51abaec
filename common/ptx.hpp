// Instructions of a GPU that CUDA C++ has no word for: each a function with its name in the PTX ISA.
// Addresses in shared memory are 32 bits wide there; `shared_address` makes one of a pointer.
#pragma once

#include <cstdint>

namespace gemm::ptx {

__device__ __forceinline__ std::uint32_t shared_address(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

// ------------------------------------------------ mbarrier (PTX ISA, Parallel Synchronization and
// Communication Instructions: mbarrier). A phase ends when all arrivals and bytes that it expects
// have come; phases are numbered 0, 1, 0, 1, .. for those who wait.

/// mbarrier.init: a phase ends after `arrivals`.
__device__ __forceinline__ void barrier_init(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals));
}

/// fence.mbarrier_init: other threads and copies see the barriers that this thread has initialised.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// mbarrier.arrive.
__device__ __forceinline__ void barrier_arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

/// mbarrier.arrive.expect_tx: arrives, and lets the phase wait for `bytes` of copies too.
__device__ __forceinline__ void barrier_arrive_expecting(std::uint64_t* barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

/// mbarrier.try_wait.parity, until the phase of this parity is over.
__device__ __forceinline__ void barrier_wait(std::uint64_t* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred over;\n"
      "again_%=: mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
      "@!over bra again_%=;\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// -------------------------------------------------- asynchronous copies (PTX ISA, Data Movement and
// Conversion Instructions: cp.async.bulk.tensor).

/// cp.async.bulk.tensor.2d: the box of `map` at column x, row y. One thread starts it; the barrier
/// hears of its bytes. `map`: a CUtensorMap in the kernel's parameters. x is a multiple of 16 bytes
/// (compute capability 9.0 takes anything else for an illegal instruction).
__device__ __forceinline__ void copy_box(float* shared, const void* map, int x, int y,
                                         std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(shared)),
      "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier))
      : "memory");
}

/// prefetch.tensormap: `map` is wanted soon.
__device__ __forceinline__ void prefetch_map(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// ---------------------------------------------------------------------------------- and the others

/// setmaxnreg.dec / .inc (PTX ISA, Miscellaneous Instructions): registers of each thread of this
/// warpgroup from here on.
template <int registers>
__device__ __forceinline__ void give_back_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

/// bar.sync and bar.arrive (PTX ISA, Parallel Synchronization and Communication Instructions): a
/// block's named barriers, 1 to 15; number 0 is that of __syncthreads(). One opens when `threads`
/// threads have come, whole warps of them: those who sync wait for that, those who arrive go on.
template <int threads>
__device__ __forceinline__ void named_barrier_sync(int number) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(threads) : "memory");
}
template <int threads>
__device__ __forceinline__ void named_barrier_arrive(int number) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "n"(threads) : "memory");
}

/// st.release.gpu and ld.acquire.gpu (PTX ISA, Memory Consistency Model): what was written before
/// the store is seen after the load that finds it.
__device__ __forceinline__ void store_release(unsigned* global, unsigned value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(global), "r"(value) : "memory");
}
__device__ __forceinline__ unsigned load_acquire(const unsigned* global) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(global) : "memory");
  return value;
}

}  // namespace gemm::ptx
