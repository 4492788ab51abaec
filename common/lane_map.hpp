// Which lane of a warp owns which thread tile of the warp tile: three answers, from step 14 on.
#pragma once

namespace gemm {

/// Where a lane's thread tile stands among the LM x LN thread tiles of a warp.
struct LanePlace {
  int row, col;
};

// What a warp reads at once are 16 bytes for every lane: a piece of A, the same for all lanes of a
// row, or a piece of B, the same for all lanes of a column. How many wavefronts of shared memory
// that takes depends on which lanes ask for the same piece.
enum class LaneMap {
  row_major,  ///< lane / LN, lane % LN
  z_order,  ///< lanes 2i and 2i + 1 share a row, lanes i and i + 2 a column
  exclusive_or  ///< lanes next to each other, and next but one, share neither
};

/// The place of `lane` in a warp of LM x LN = 32 lanes. Each map is one to one.
template <LaneMap map, int LM, int LN>
constexpr LanePlace place_of(int lane) {
  static_assert(LM * LN == 32, "a warp has 32 lanes");
  if constexpr (map == LaneMap::row_major) {
    return {lane / LN, lane % LN};
  } else {
    static_assert(LM == 4 || LM == 8, "written for 4 x 8 and 8 x 4 lanes");
    const int low = lane % 4, middle = lane / 4 % 4, high = lane / 16;
    if constexpr (map == LaneMap::z_order) {
      const int row = lane / 2 % 4, col = lane / 8 % 2 * 2 + lane % 2;
      return LM == 4 ? LanePlace{row, col + 4 * high} : LanePlace{row + 4 * high, col};
    }
    return LM == 4 ? LanePlace{low, (low ^ middle) + 4 * high}
                   : LanePlace{(low ^ middle) + 4 * high, low};
  }
}

}  // namespace gemm
