// CUDA's vocabulary for g++: what a SIMT kernel needs to be compiled for the emulator, unchanged.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
// A block runs on one host thread, so that thread's storage is the block's shared memory. Constant,
// or an array would be constructed at its first use.
#define __shared__ constinit thread_local

namespace gemm::simt {

// Constant within a thread, so the compiler may keep them in registers as nvcc does.
unsigned thread_index() __attribute__((const));
unsigned block_index() __attribute__((const));
unsigned block_size() __attribute__((const));
unsigned grid_size() __attribute__((const));

/// What a block may take of shared memory: as much as on compute capability 9.0.
constexpr int max_shared_bytes = 227 << 10;

/// Runs `invoke(body)` for every thread of every block and counts what it does. `parameters` bytes
/// from `body` on hold the kernel's arguments. Throws Fault at the first error.
void launch(void* kernel, std::int64_t blocks, int threads, int dynamic_shared_bytes,
            void (*invoke)(const void*), const void* body, std::size_t parameters);

template <typename Body>
void launch(void* kernel, std::int64_t blocks, int threads, int dynamic_shared_bytes,
            const Body& body) {
  launch(
      kernel, blocks, threads, dynamic_shared_bytes,
      [](const void* b) { (*static_cast<const Body*>(b))(); }, &body, sizeof body);
}

/// Bytes of the __shared__ arrays that a kernel declares.
std::int64_t static_shared_bytes(void* kernel);

/// Waits for the lanes of `mask`, then gives the value that lane `source` brought.
std::uint64_t exchange(unsigned mask, std::uint64_t value, int source);

// A vector moves as one machine word, or g++ would split it into an access per member.
template <std::size_t bytes>
struct Word;
template <>
struct Word<8> {
  using Type [[gnu::may_alias]] = std::uint64_t;
};
template <>
struct Word<16> {
  using Type [[gnu::vector_size(16), gnu::may_alias]] = long long;
};

template <typename Vector>
__forceinline__ void move(Vector* to, const Vector* from) {
  using W = typename Word<sizeof(Vector)>::Type;
  *reinterpret_cast<W*>(to) = *reinterpret_cast<const W*>(from);
}

template <typename T>
struct alignas(2 * sizeof(T)) Vector2 {
  T x, y;
  constexpr Vector2() : x(), y() {}
  Vector2(T x, T y) : x(x), y(y) {}
  __forceinline__ Vector2(const Vector2& other) { move(this, &other); }
  __forceinline__ Vector2& operator=(const Vector2& other) {
    move(this, &other);
    return *this;
  }
};

template <typename T>
struct alignas(4 * sizeof(T)) Vector4 {
  T x, y, z, w;
  // Constant, or a __shared__ array would be constructed at its first use.
  constexpr Vector4() : x(), y(), z(), w() {}
  Vector4(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}
  __forceinline__ Vector4(const Vector4& other) { move(this, &other); }
  __forceinline__ Vector4& operator=(const Vector4& other) {
    move(this, &other);
    return *this;
  }
};

// threadIdx and its kind: no object in memory, or reading them would count as an access.
template <unsigned (*value)()>
struct Index {
  operator unsigned() const { return value(); }
};
constexpr unsigned zero() { return 0; }
constexpr unsigned one() { return 1; }

template <unsigned (*first)(), unsigned (*others)()>
struct Index3 {
  static constexpr Index<first> x{};
  static constexpr Index<others> y{}, z{};
};

}  // namespace gemm::simt

// From here on the names are CUDA's.
// NOLINTBEGIN(readability-identifier-naming)

using float2 = gemm::simt::Vector2<float>;
using float4 = gemm::simt::Vector4<float>;
using int2 = gemm::simt::Vector2<int>;
using int4 = gemm::simt::Vector4<int>;
using uint2 = gemm::simt::Vector2<unsigned>;
using uint4 = gemm::simt::Vector4<unsigned>;

inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// Grids and blocks are one-dimensional: launch.hpp starts no others.
constexpr gemm::simt::Index3<gemm::simt::thread_index, gemm::simt::zero> threadIdx{};
constexpr gemm::simt::Index3<gemm::simt::block_index, gemm::simt::zero> blockIdx{};
constexpr gemm::simt::Index3<gemm::simt::block_size, gemm::simt::one> blockDim{};
constexpr gemm::simt::Index3<gemm::simt::grid_size, gemm::simt::one> gridDim{};
constexpr int warpSize = 32;

void __syncthreads();
void __syncwarp(unsigned mask = 0xffffffff);

/// Copies that arrive only at the wait. `bytes` is 4, 8 or 16 and both ends are aligned to it.
void __pipeline_memcpy_async(void* shared, const void* global, std::size_t bytes,
                             std::size_t zeros = 0);
void __pipeline_commit();
void __pipeline_wait_prior(std::size_t groups);

namespace gemm::simt {

template <typename T>
T shuffle(unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  word = exchange(mask, word, source);
  std::memcpy(&value, &word, sizeof value);
  return value;
}

}  // namespace gemm::simt

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
  const int lane = threadIdx.x % warpSize;
  return gemm::simt::shuffle(mask, value, lane / width * width + source % width);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const int lane = threadIdx.x % warpSize, from = lane - int(delta);
  return gemm::simt::shuffle(mask, value, from < lane / width * width ? lane : from);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const int lane = threadIdx.x % warpSize, from = lane + int(delta);
  return gemm::simt::shuffle(mask, value, from >= lane / width * width + width ? lane : from);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = warpSize) {
  const int lane = threadIdx.x % warpSize, from = lane ^ bits;
  return gemm::simt::shuffle(mask, value, from >= lane / width * width + width ? lane : from);
}

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }

template <typename T>
__forceinline__ T __ldg(const T* p) {
  return *p;
}

// NOLINTEND(readability-identifier-naming)
