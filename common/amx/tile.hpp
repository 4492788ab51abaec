// The eight tile registers of AMX: 16 rows of 64 bytes each, and one instruction that multiplies two
// of them and adds the product to a third. Instructions: Intel SDM, volume 2; registers and
// permission to use them: volume 1, chapter 18, and Linux, Documentation/arch/x86/xstate.rst.
#pragma once

#include <cstdint>
#include <string>

#if defined(GEMM_EMULATOR)
#include <bit>
#include <limits>

#include "common/bfloat16.hpp"
#else
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace gemm {

/// A tile is 16 rows of 64 bytes: 16 x 16 fp32 of C, 16 x 32 BF16 of A, or 32 x 16 BF16 of B, of
/// which two rows share one of the tile's, pair by pair.
constexpr int tile_rows = 16, tile_row_bytes = 64, tile_depth = 32;

#if defined(GEMM_EMULATOR)
inline namespace emulator {

/// The tile registers in plain C++, by the pseudo-code of the SDM. Loads and stores are made of
/// ordinary accesses, 64 bytes a row, and are counted.
class Tiles {
 public:
  template <int tile>
  void zero() {
    tiles_[tile] = {};
  }

  template <int tile>
  void load(const void* from, std::int64_t stride) {
    for (int r = 0; r < tile_rows; ++r)
      tiles_[tile].row[r] =
          *reinterpret_cast<const AnyRow*>(static_cast<const char*>(from) + r * stride);
  }

  template <int tile>
  void store(void* to, std::int64_t stride) const {
    for (int r = 0; r < tile_rows; ++r)
      *reinterpret_cast<AnyRow*>(static_cast<char*>(to) + r * stride) = tiles_[tile].row[r];
  }

  template <int c, int a, int b>
  void multiply_add() {
    multiply_add(tiles_[c], tiles_[a], tiles_[b]);
  }

 private:
  // A row holds 16 fp32, or 16 pairs of BF16 with the first of them in the lower half.
  using Row [[gnu::vector_size(tile_row_bytes)]] = std::uint32_t;
  using AnyRow [[gnu::vector_size(tile_row_bytes), gnu::aligned(2), gnu::may_alias]] =
      std::uint32_t;

  struct Tile {
    Row row[tile_rows] = {};
  };

  // Subnormal numbers count as zeros, as operands and as results: DAZ = FTZ = 1, whatever MXCSR
  // says.
  static float flush(float x) {
    return x < std::numeric_limits<float>::min() && x > -std::numeric_limits<float>::min() ? 0 : x;
  }

  static float value(std::uint32_t bits) { return flush(std::bit_cast<float>(bits)); }

  // Products of even and of odd k are summed apart; the sum of both sums is added to C. Each
  // addition rounds to nearest, ties to even. These are registers, so nothing here is counted.
  [[gnu::no_sanitize_thread]] static void multiply_add(Tile& c, const Tile& a, const Tile& b) {
    for (int m = 0; m < tile_rows; ++m) {
      float even[tile_rows] = {}, odd[tile_rows] = {};
      for (int k = 0; k < tile_rows; ++k) {
        const std::uint32_t pair = a.row[m][k];
        const float first = value(pair << 16), second = value(pair & 0xFFFF0000);
        for (int n = 0; n < tile_rows; ++n) {
          even[n] = flush(even[n] + first * value(b.row[k][n] << 16));
          odd[n] = flush(odd[n] + second * value(b.row[k][n] & 0xFFFF0000));
        }
      }
      for (int n = 0; n < tile_rows; ++n) {
        const float sum = flush(value(c.row[m][n]) + flush(even[n] + odd[n]));
        c.row[m][n] = std::bit_cast<std::uint32_t>(sum);
      }
    }
  }

  Tile tiles_[8];
};

/// Why the tile registers cannot be used; empty where they can.
inline std::string why_no_tiles() { return {}; }

}  // namespace emulator
#else
inline namespace cpu {

/// The tile registers of the thread that makes it, until it goes out of scope. Each thread has its
/// own.
class Tiles {
 public:
  Tiles() {
    // Palette 1 has eight tiles; all of them are used whole.
    struct alignas(64) Configuration {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t row_bytes[16] = {};
      std::uint8_t rows[16] = {};
    } whole;
    static_assert(sizeof whole == 64);
    for (int tile = 0; tile < 8; ++tile) {
      whole.row_bytes[tile] = tile_row_bytes;
      whole.rows[tile] = tile_rows;
    }
    asm volatile("ldtilecfg %0" : : "m"(whole));
  }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
  ~Tiles() { asm volatile("tilerelease"); }

  /// TILEZERO
  template <int tile>
  [[gnu::always_inline]] void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(tile));
  }

  /// TILELOADD: rows are `stride` bytes apart, at any alignment.
  template <int tile>
  [[gnu::always_inline]] void load(const void* from, std::int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(tile) : "memory");
  }

  /// TILESTORED
  template <int tile>
  [[gnu::always_inline]] void store(void* to, std::int64_t stride) const {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(tile) : "memory");
  }

  /// TDPBF16PS: tile c += tile a * tile b. Its 16 x 16 x 32 FMAs take 16 clocks. Neither the
  /// rounding mode nor the treatment of subnormal numbers is that of MXCSR: to nearest, ties to
  /// even; subnormals are zeros.
  template <int c, int a, int b>
  [[gnu::always_inline]] void multiply_add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
};

/// Why the tile registers cannot be used; empty where they can. Asks the operating system for
/// them, because it saves no thread's 8 KiB of tiles unasked.
inline std::string why_no_tiles() {
  constexpr unsigned bf16 = 1u << 22, tile = 1u << 24;  // CPUID.(EAX=7,ECX=0):EDX
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx);
  if (~edx & (bf16 | tile)) return "this CPU has no AMX; --device emulator needs none";
  constexpr long request_permission = 0x1023, tile_data = 18;  // asm/prctl.h, asm/fpu/types.h
  if (syscall(SYS_arch_prctl, request_permission, tile_data) != 0)
    return "the operating system does not give this program AMX; Linux does since 5.16";
  return {};
}

}  // namespace cpu
#endif

}  // namespace gemm
