// BF16: the upper half of an fp32. 8 bits of exponent as there, 8 significant bits instead of 24.
#pragma once

#include <bit>
#include <cstdint>

namespace gemm {

struct bfloat16 {  // NOLINT(readability-identifier-naming): written like float
  std::uint16_t bits;
};

/// Rounds to nearest, ties to even: too large a value becomes infinite. NaN stays NaN.
constexpr bfloat16 to_bfloat16(float x) {
  constexpr std::uint32_t quiet = 0x400000;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  // A NaN whose bits are all in the lower half would be cut down to infinity.
  if (x != x) return {static_cast<std::uint16_t>((bits | quiet) >> 16)};
  return {static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}

/// Exact.
constexpr float to_float(bfloat16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }

}  // namespace gemm
