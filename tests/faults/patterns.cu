// Kernels without fault whose counts are known by hand.
#include "common/launch.hpp"
#include "tests/faults/patterns.hpp"

namespace gemm::faults {
namespace {

// A lane of the only warp loads element `stride` * lane and stores it to neighbouring elements.
template <typename T>
__global__ void strided_global(const float* in, float* out, int stride) {
  const int lane = threadIdx.x;
  reinterpret_cast<T*>(out)[lane] = reinterpret_cast<const T*>(in)[lane * stride];
}

// The same in shared memory: store along the rows, load with a stride.
__global__ void strided_shared(const float* in, float* out, int stride) {
  __shared__ float tile[1024];
  const int lane = threadIdx.x;
  for (int i = 0; i < 32; ++i) tile[i * 32 + lane] = in[lane];
  __syncthreads();
  out[lane] = tile[lane * stride % 1024];
}

// Lanes share addresses two and two, four and four, ..: lane / `sharing` is what they load.
__global__ void shared_vectors(const float* in, float* out, int sharing) {
  __shared__ float4 tile[32];
  const int lane = threadIdx.x;
  tile[lane] = reinterpret_cast<const float4*>(in)[0];
  __syncthreads();
  reinterpret_cast<float4*>(out)[lane] = tile[lane / sharing];
}

// Odd lanes make one more access than even ones, in each of three turns.
__global__ void uneven_lanes(const float* in, float* out) {
  const int lane = threadIdx.x;
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < 3; ++i) {
    if (lane % 2) sum += in[lane];
    out[lane] = sum;
  }
}

// More accesses than a lane's log holds, in a warp whose lanes come apart.
__global__ void many_accesses(const float* in, float* out, int turns) {
  const int lane = threadIdx.x;
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < turns * (1 + lane % 2); ++i) sum += in[i % 64];
  out[lane] = sum;
}

// A sum over the warp by shuffles; then lanes trade values in shared memory.
__global__ void warp_sum(const float* in, float* out) {
  __shared__ float tile[64];
  const int tid = threadIdx.x;
  float x = in[tid];
  for (int distance = 16; distance > 0; distance /= 2)
    x += __shfl_xor_sync(0xffffffff, x, distance);
  const float next = __shfl_sync(0xffffffff, in[tid], tid + 1);
  const float above = __shfl_down_sync(0xffffffff, in[tid], 1, 16);
  const float below = __shfl_up_sync(0xffffffff, in[tid], 2);
  for (int turn = 0; turn < 300; ++turn) {
    tile[tid] = next;
    __syncwarp();
    x += tile[tid ^ 1] * (turn == 0);
    __syncwarp();
  }
  out[tid] = x + 1000 * above + 1000000 * below;
}

// The last 32 of `floats` of dynamic shared memory, beside an array of the kernel's own.
__global__ void dynamic_reversal(const float* in, float* out, int floats) {
  __shared__ float tile[32];
  const int tid = threadIdx.x;
  tile[tid] = in[tid];
  dynamic_shared[floats - 32 + tid] = in[tid];
  __syncthreads();
  out[tid] = tile[31 - tid] + dynamic_shared[floats - 1 - tid];
}

// Two stages of asynchronous copies, the second with a zero-filled end.
__global__ void async_stages(const float* in, float* out) {
  alignas(16) __shared__ float tile[2][64];
  const int tid = threadIdx.x;
  __pipeline_memcpy_async(&tile[0][tid * 4], in + tid * 4, 16);
  __pipeline_commit();
  __pipeline_memcpy_async(&tile[1][tid * 4], in + tid * 4, 16, tid == 15 ? 8 : 0);
  __pipeline_commit();
  __pipeline_wait_prior(1);
  __syncthreads();
  const float first = tile[0][63 - tid];
  __pipeline_wait_prior(0);
  __syncthreads();
  out[tid] = first + 100 * tile[1][63 - tid];
}

}  // namespace

Run load_floats(const float* in, float* out, int stride) {
  return launch(strided_global<float>, Grid{1, 32}, in, out, stride);
}
Run load_float2s(const float* in, float* out, int stride) {
  return launch(strided_global<float2>, Grid{1, 32}, in, out, stride);
}
Run load_float4s(const float* in, float* out, int stride) {
  return launch(strided_global<float4>, Grid{1, 32}, in, out, stride);
}
Run load_shared(const float* in, float* out, int stride) {
  return launch(strided_shared, Grid{1, 32}, in, out, stride);
}
Run load_shared_vectors(const float* in, float* out, int sharing) {
  return launch(shared_vectors, Grid{1, 32}, in, out, sharing);
}
Run diverge(const float* in, float* out) { return launch(uneven_lanes, Grid{1, 32}, in, out); }
Run fill_log(const float* in, float* out, int turns) {
  return launch(many_accesses, Grid{1, 32}, in, out, turns);
}
Run sum_warps(const float* in, float* out) { return launch(warp_sum, Grid{1, 64}, in, out); }
Run reverse_dynamic_shared(const float* in, float* out, int floats) {
  return launch(dynamic_reversal, Grid{1, 32, floats * int(sizeof(float))}, in, out, floats);
}
Run copy_stages(const float* in, float* out) { return launch(async_stages, Grid{1, 16}, in, out); }

}  // namespace gemm::faults
