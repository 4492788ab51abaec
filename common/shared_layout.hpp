// Where a tile of A lies in shared memory, once it is transposed: three answers, from step 12 on.
#pragma once

namespace gemm {

// Element (k, m) of a BM x BK tile stands at place at(k, m) of `floats`. A warp that transposes a
// tile on its way in stores the same m for several k at once. BM is a multiple of the 32 banks, so
// that in a plain layout all of those meet in one bank.
template <int BM, int BK>
struct Plain {
  static constexpr int floats = BK * BM;
  static constexpr int at(int k, int m) { return k * BM + m; }
};

// Four floats of padding move every k on by 4 banks. Four neighbouring m stay together, and aligned
// to 16 bytes.
template <int BM, int BK>
struct Padded {
  static constexpr int floats = BK * (BM + 4);
  static constexpr int at(int k, int m) { return k * (BM + 4) + m; }
};

// The swizzle takes no space: a group of 4 k, which is what one thread stores, moves its m by XOR
// with a number of its own. The BK / 4 groups share the 32 banks evenly, and again four neighbouring
// m stay together.
template <int BM, int BK>
struct Swizzled {
  static_assert(BM % 32 == 0 && BK >= 8 && BK <= 32, "BK / 4 groups share the 32 banks evenly");
  static constexpr int floats = BK * BM;
  static constexpr int at(int k, int m) { return k * BM + (m ^ k / 4 * (128 / BK)); }
};

}  // namespace gemm
