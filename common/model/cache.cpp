#include "common/model/cache.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

namespace gemm {
namespace {

constexpr int float_bytes = 4;

// Lines of a cache and floats in a line, and the lines that parts of a matrix cover.
struct Lines {
  explicit Lines(Cache cache)
      : b(cache.line_bytes / float_bytes),
        capacity(static_cast<double>(cache.bytes) / cache.line_bytes) {}

  bool hold(double lines) const { return lines <= capacity; }

  // A whole matrix, rows end to end.
  double whole(double rows, double cols) const { return rows * cols / b; }

  // A block of `cols` columns out of rows that are `ld` apart. The first element of a row lies at
  // any multiple of gcd(ld, b) within a line, all equally often: on average a row of a block covers
  // (cols - gcd) / b + 1 lines.
  double block(double rows, int cols, int ld) const {
    if (cols >= ld) return whole(rows, cols);
    const int step = std::gcd(ld, b);
    return rows * (1.0 + static_cast<double>(ceil_div(cols, step) * step - step) / b);
  }

  // The lines of all the blocks that rows of `ld` floats are cut into.
  double cut(double rows, int cols, int ld) const {
    const int whole_blocks = ld / cols;
    return whole_blocks * block(rows, cols, ld) + (ld % cols ? block(rows, ld % cols, ld) : 0.0);
  }

  int b;
  double capacity;
};

// Step 03's loops over tiles t of a problem s; step 02 is the case of a single tile.
double tiled_misses(Shape s, Shape t, const Lines& lines) {
  const auto [M, N, K] = s;
  const double tiles_m = ceil_div(M, t.M), tiles_n = ceil_div(N, t.N), tiles_k = ceil_div(K, t.K);
  const double row_of_b = lines.block(1, t.N, N);
  const double tile_a = lines.block(t.M, t.K, K);
  const double tile_b = t.K * row_of_b, tile_c = t.M * row_of_b;
  const double panel_a = lines.whole(t.M, K), panel_b = K * row_of_b;

  // From k to k + 1 the row of C and the line of A wait for one row of B to pass.
  const bool row_stays = lines.hold(2 * row_of_b + 1);
  // From row i to i + 1 the tile of B waits for itself, a row of A and two of C.
  const bool tile_b_stays = lines.hold(tile_b + lines.block(1, t.K, K) + 2 * row_of_b);
  // From k0 to k0 + BK a row of C waits for its tile, a tile of A, and the old and new tile of B.
  const bool tile_c_stays = lines.hold(tile_c + tile_a + 2 * tile_b);
  // From col0 to col0 + BN the panel of A waits for itself, a panel of B and two tiles of C.
  const bool panel_a_stays = lines.hold(panel_a + panel_b + 2 * tile_c);
  // From row0 to row0 + BM all of B waits for itself, two panels of A and one of C.
  const bool all_b_stays = lines.hold(lines.whole(K, N) + 2 * panel_a + lines.whole(t.M, N));

  double a = lines.whole(M, K), b = lines.whole(K, N), c = lines.whole(M, N);
  // A line that two tiles share is fetched for both, unless it waits no longer than a panel of A.
  if (!panel_a_stays) {
    a *= tiles_n;
    b = lines.cut(K, t.N, N);
    c = lines.cut(M, t.N, N);
  }
  if (!all_b_stays) b *= tile_b_stays || t.M == 1 ? tiles_m : M;
  if (!row_stays) {
    a *= std::min(lines.b, K);
    c *= K;
  } else if (!tile_c_stays) {
    c *= tiles_k;
  }
  return a + b + c;
}

// Misses of step 04's block m x n x k of a problem s, and of the same size wherever it lies.
class Recursion {
 public:
  Recursion(Shape s, int leaf, Cache cache) : s_(s), leaf_(leaf), lines_(cache) {}

  double misses(Shape block) {
    if (fits(block)) return a(block) + b(block) + c(block);
    if (is_leaf(block)) return leaf_misses(block);

    const auto [known, is_new] = known_.try_emplace({block.M, block.N, block.K}, 0.0);
    if (is_new) known->second = halves_misses(block);
    return known->second;
  }

 private:
  double halves_misses(Shape block) {
    const int longest = std::max({block.M, block.N, block.K});
    const int half = recursion_half(longest);
    Shape first = block, second = block;
    int Shape::*const cut = block.M == longest   ? &Shape::M
                            : block.N == longest ? &Shape::N
                                                 : &Shape::K;
    first.*cut = half;
    second.*cut = longest - half;
    // Two leaves above each other use the same block of B, whose lines were all touched lately.
    // What other halves have in common is too old to be there, or their parent would fit.
    const bool same_b = cut == &Shape::M && is_leaf(first) && b_stays(first);
    return misses(first) + misses(second) - (same_b ? b(block) : 0.0);
  }

  double leaf_misses(Shape block) const {
    return a(block) + b(block) * (b_stays(block) ? 1 : block.M) + c(block);
  }

  // From row i to i + 1 of a leaf, B waits for itself, a row of A and two of C.
  bool b_stays(Shape leaf) const {
    return lines_.hold(b(leaf) + lines_.block(1, leaf.K, s_.K) + 2 * lines_.block(1, leaf.N, s_.N));
  }

  bool is_leaf(Shape block) const { return std::max({block.M, block.N, block.K}) <= leaf_; }

  double a(Shape block) const { return lines_.block(block.M, block.K, s_.K); }
  double b(Shape block) const { return lines_.block(block.K, block.N, s_.N); }
  double c(Shape block) const { return lines_.block(block.M, block.N, s_.N); }
  bool fits(Shape block) const { return lines_.hold(a(block) + b(block) + c(block)); }

  Shape s_;
  int leaf_;
  Lines lines_;
  std::map<std::tuple<int, int, int>, double> known_;
};

bool empty(Shape s) { return s.M == 0 || s.N == 0 || s.K == 0; }

double lines_of_c(Shape s, Cache cache) { return Lines(cache).whole(s.M, s.N); }

// A, B and C side by side: the least that must be fetched, and all that is if it fits.
double compulsory_lines(Shape s, Cache cache) {
  const Lines lines(cache);
  return lines.whole(s.M, s.K) + lines.whole(s.K, s.N) + lines.whole(s.M, s.N);
}

bool everything_fits(Shape s, Cache cache) { return Lines(cache).hold(compulsory_lines(s, cache)); }

}  // namespace

int best_square_tile(std::int64_t cache_bytes) {
  const int T = static_cast<int>(std::sqrt(cache_bytes / (3.0 * float_bytes)));
  return std::max(T / 16 * 16, 16);
}

int panel_depth(std::int64_t l1_bytes, int rows) {
  const std::int64_t depth = l1_bytes * 3 / 8 / (4 * rows);
  return static_cast<int>(std::max<std::int64_t>(1, depth / 16)) * 16;
}

int panel_block_width(std::int64_t l2_bytes, int depth, int panel) {
  const std::int64_t width = l2_bytes * 3 / 8 / (4 * depth);
  return static_cast<int>(std::max<std::int64_t>(1, width / panel)) * panel;
}

double naive_misses(Shape s, Cache cache) {
  if (empty(s)) return lines_of_c(s, cache);
  const Lines lines(cache);
  const double M = s.M, N = s.N, K = s.K;
  const double row_of_a = K / lines.b, all_of_b = lines.whole(K, N), row_of_c = N / lines.b;
  const double column_of_b = std::min(K, all_of_b);

  // From row i to i + 1, B waits for itself, two rows of A and one of C.
  if (lines.hold(all_of_b + 2 * row_of_a + row_of_c)) return M * row_of_a + all_of_b + M * row_of_c;
  // From column j to j + 1, the lines of a column wait for themselves, a row of A and an element of
  // C.
  if (lines.hold(column_of_b + row_of_a + 1)) return M * (row_of_a + all_of_b + row_of_c);
  return M * N * (K + row_of_a) + M * row_of_c;
}

double loop_order_misses(Shape s, Cache cache) {
  return empty(s) ? lines_of_c(s, cache) : tiled_misses(s, s, Lines(cache));
}

double square_tiling_misses(Shape s, int T, Cache cache) {
  if (empty(s)) return lines_of_c(s, cache);
  if (everything_fits(s, cache)) return compulsory_lines(s, cache);
  const Shape tile{std::min(T, s.M), std::min(T, s.N), std::min(T, s.K)};
  return lines_of_c(s, cache) + tiled_misses(s, tile, Lines(cache));
}

double recursive_misses(Shape s, int leaf, Cache cache) {
  if (empty(s)) return lines_of_c(s, cache);
  if (everything_fits(s, cache)) return compulsory_lines(s, cache);
  return lines_of_c(s, cache) + Recursion(s, leaf, cache).misses(s);
}

}  // namespace gemm
