// A vector of floats as wide as this machine's registers: the compiler's own vector type, so that
// one source becomes SSE, AVX, AVX-512 or NEON.
#pragma once

#include <type_traits>
#include <utility>

#if defined(__AVX__) && !defined(GEMM_EMULATOR)
#include <immintrin.h>
#endif

namespace gemm {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64, vector_registers = 32;
#elif defined(__AVX__)
constexpr int vector_bytes = 32, vector_registers = 16;
#elif defined(__aarch64__)
constexpr int vector_bytes = 16, vector_registers = 32;
#else
constexpr int vector_bytes = 16, vector_registers = 16;
#endif

using Vector [[gnu::vector_size(vector_bytes)]] = float;
constexpr int lanes = vector_bytes / sizeof(float);

// What follows is always inlined: two sources compiled for different CPUs must not share a copy.

/// The vector at `p`, which needs no more alignment than a float.
[[gnu::always_inline]] inline Vector load(const float* p) {
  using Unaligned [[gnu::vector_size(vector_bytes), gnu::aligned(4), gnu::may_alias]] = float;
  return *reinterpret_cast<const Unaligned*>(p);
}

[[gnu::always_inline]] inline void store(float* p, Vector v) {
  using Unaligned [[gnu::vector_size(vector_bytes), gnu::aligned(4), gnu::may_alias]] = float;
  *reinterpret_cast<Unaligned*>(p) = v;
}

/// `x` in every lane.
[[gnu::always_inline]] inline Vector broadcast(float x) { return x - Vector{}; }

/// acc + a * b. Left to itself, g++ loads b again for every FMA of an unrolled loop (as its memory
/// operand), or lets the sum land in the register of a factor and moves it back: either costs up to
/// a third of the rate. Naming the instruction keeps a and b in registers and acc in its place.
[[gnu::always_inline]] inline Vector multiply_add(Vector acc, Vector a, Vector b) {
#if defined(__FMA__) || defined(__AVX512F__)
  asm("vfmadd231ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
  return acc;
#else
  return acc + a * b;
#endif
}

/// Calls body(i) for i = 0 .. n - 1, each i a constant. A loop over registers has to be written so:
/// an array whose indices are only known once a loop is unrolled may stay in memory.
template <int n, typename Body>
[[gnu::always_inline]] inline void unroll(Body&& body) {
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
    (body(std::integral_constant<int, i>{}), ...);
  }
  (std::make_integer_sequence<int, n>{});
}

/// The sum of all lanes, by halves.
template <int half = lanes / 2>
[[gnu::always_inline]] inline float sum(Vector v) {
  if constexpr (half == 0) {
    return v[0];
  } else {
    const auto moved = [&]<int... i>(std::integer_sequence<int, i...>)
        __attribute__((always_inline)) {
      return __builtin_shufflevector(v, v, (i + half) % lanes...);
    };
    return sum<half / 2>(v + moved(std::make_integer_sequence<int, lanes>{}));
  }
}

#if defined(__AVX512F__) && !defined(GEMM_EMULATOR)

/// The first `count` floats at `p` and zeros after them; what lies behind `count` is not touched.
[[gnu::always_inline]] inline Vector load_first(const float* p, int count) {
  return _mm512_maskz_loadu_ps((1u << count) - 1, p);
}

/// Stores the first `count` lanes and touches nothing behind them.
[[gnu::always_inline]] inline void store_first(float* p, Vector v, int count) {
  _mm512_mask_storeu_ps(p, (1u << count) - 1, v);
}

#elif defined(__AVX__) && !defined(GEMM_EMULATOR)

// Lanes below `count` have their sign bit set: those are the ones that VMASKMOVPS moves.
[[gnu::always_inline]] inline __m256i first_lanes(int count) {
  static constexpr int sliding[2 * lanes] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sliding + lanes - count));
}

[[gnu::always_inline]] inline Vector load_first(const float* p, int count) {
  return _mm256_maskload_ps(p, first_lanes(count));
}

[[gnu::always_inline]] inline void store_first(float* p, Vector v, int count) {
  _mm256_maskstore_ps(p, first_lanes(count), v);
}

#else

[[gnu::always_inline]] inline Vector load_first(const float* p, int count) {
  Vector v = {};
  for (int i = 0; i < count; ++i) v[i] = p[i];
  return v;
}

[[gnu::always_inline]] inline void store_first(float* p, Vector v, int count) {
  for (int i = 0; i < count; ++i) p[i] = v[i];
}

#endif

}  // namespace gemm
