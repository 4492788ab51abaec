// Who multiplies what: the pieces of work of each block of a persistent grid.
#pragma once

#include <cstdint>

#include "common/gemm.hpp"

namespace gemm {

/// A tile of C, and the slices of K [slice0, slice1) of it.
struct Piece {
  int tile, slice0, slice1;
};

/// How `blocks` blocks share the tiles of C. As many whole rounds of tiles as there are go one tile
/// to a block. What is left would keep only some of the blocks busy: those tiles are cut along K
/// into shares of equal length, one for each block ("stream-K": Osama et al., PPoPP 2023).
struct Schedule {
  int tiles_m, tiles_n, slices;
  int whole;  ///< tiles that are not cut
  int blocks;

  constexpr int tiles() const { return tiles_m * tiles_n; }
  /// Where the share of a block begins: in slices, counted over all tiles that are cut.
  constexpr int share(int block) const {
    const int all = (tiles() - whole) * slices;
    return block * (all / blocks) + block * (all % blocks) / blocks;
  }
};

constexpr Schedule schedule_of(Shape s, Tile t, int blocks, bool cut) {
  const int tiles_m = ceil_div(s.M, t.BM), tiles_n = ceil_div(s.N, t.BN);
  const int tiles = tiles_m * tiles_n, slices = ceil_div(s.K, t.BK), left = tiles % blocks;
  // So many slices that they could not be counted make long work of each tile anyway.
  if (std::int64_t{left} * slices > INT32_MAX) cut = false;
  return {tiles_m, tiles_n, slices, cut ? tiles - left : tiles, blocks};
}

/// The corner of a tile, in tiles. Blocks that run at the same time take tiles from a band of
/// `band` rows, column by column: near each other, so that they share rows of A and columns of B in
/// L2.
struct TilePlace {
  int row, col;
};
constexpr TilePlace place_of_tile(const Schedule& s, int tile) {
  constexpr int band = 8;
  const int row0 = tile / (band * s.tiles_n) * band, at = tile - row0 * s.tiles_n;
  const int rows = s.tiles_m - row0 < band ? s.tiles_m - row0 : band;
  return {row0 + at % rows, at / rows};
}

/// A block's pieces one after another: its whole tiles first, then its share from the end. From the
/// end, because the block after this one waits for what this one adds to the tile that they share:
/// so nobody waits for a block with a higher number, and those may start as late as they like.
class Pieces {
 public:
  constexpr Pieces(const Schedule& schedule, int block)
      : schedule_(schedule),
        tile_(block),
        begin_(schedule.share(block)),
        end_(schedule.share(block + 1)) {}

  /// False when there is no more.
  constexpr bool next(Piece& piece) {
    const int slices = schedule_.slices;
    if (tile_ < schedule_.whole) {
      piece = {tile_, 0, slices};
      tile_ += schedule_.blocks;
      return true;
    }
    if (begin_ == end_) return false;
    const int cut = (end_ - 1) / slices;
    const int first = cut * slices;
    piece = {schedule_.whole + cut, begin_ > first ? begin_ - first : 0, end_ - first};
    end_ = first + piece.slice0;
    return true;
  }

 private:
  const Schedule& schedule_;
  int tile_, begin_, end_;
};

/// A slice of a tile, to be brought to shared memory.
struct Slice {
  TilePlace at;
  int number;
};

/// The slices of a block's pieces one after another, and one behind the last, of which fragments are
/// read ahead: it lies past the end of K, and holds zeros.
class Slices {
 public:
  constexpr Slices(const Schedule& schedule, int block)
      : schedule_(schedule), pieces_(schedule, block) {}

  /// False when there is no more.
  constexpr bool next(Slice& slice) {
    if (number_ == piece_.slice1) {
      if (over_) return false;
      over_ = !pieces_.next(piece_);
      if (over_) {
        slice = {{0, 0}, schedule_.slices};
        return true;
      }
      at_ = place_of_tile(schedule_, piece_.tile);
      number_ = piece_.slice0;
    }
    slice = {at_, number_++};
    return true;
  }

 private:
  const Schedule& schedule_;
  Pieces pieces_;
  Piece piece_{0, 0, 0};
  TilePlace at_{0, 0};
  int number_ = 0;
  bool over_ = false;
};

/// The first of the blocks that share a tile which is cut.
constexpr int first_block_of(const Schedule& s, int tile, int last_block) {
  const int first = (tile - s.whole) * s.slices;
  int block = last_block;
  while (s.share(block) > first) --block;
  return block;
}

/// How many blocks form a cluster where a cluster shares a tile: two, where there is room and each
/// gets a slice. No more: a cluster lies within one part of the GPU (a GPC), so that larger ones leave
/// multiprocessors without a block.
constexpr int max_cluster = 2;
constexpr int blocks_of_cluster(Shape s, Tile t, int room) {
  const int tiles = ceil_div(s.M, t.BM) * ceil_div(s.N, t.BN), slices = ceil_div(s.K, t.BK);
  return tiles <= room / max_cluster && slices >= max_cluster ? max_cluster : 1;
}

/// The schedule where the `cluster` neighbouring blocks of each tile share it: a piece for each.
constexpr Schedule schedule_of_clusters(Shape s, Tile t, int cluster) {
  Schedule schedule = schedule_of(s, t, 1, false);
  schedule.whole = 0;
  schedule.blocks = schedule.tiles() * cluster;
  return schedule;
}

}  // namespace gemm
