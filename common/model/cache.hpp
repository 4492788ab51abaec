// What a cache has to fetch for the loops of steps 01 - 04, predicted from sizes alone.
//
// The model is a fully associative cache that evicts the least recently used line (LRU). Then a
// line is still there when it is wanted again if and only if at most as many other lines were
// touched in between as the cache holds; each condition in cache.cpp is one such count. Every line
// is counted, loaded or stored. Real caches fetch more, where lines compete for a set. Source of
// the counting: Hong and Kung, STOC 1981; Lam, Rothberg and Wolf, ASPLOS 1991.
#pragma once

#include <cstdint>

#include "common/gemm.hpp"

namespace gemm {

/// The largest T, a multiple of 16 floats (one 64-byte line) and at least 16, for which tiles of
/// A, B and C fit into a cache together: 3 * T * T * 4 <= cache_bytes, so T <= sqrt(Z / 12).
int best_square_tile(std::int64_t cache_bytes);

/// KC of step 06: the depth, a multiple of 16 floats, at which `rows` rows of A take 3/8 of L1. The
/// panels of B that stream through may still push them out to L2; a rule, not a guarantee.
int panel_depth(std::int64_t l1_bytes, int rows);

/// NC of step 06: how many columns, a multiple of `panel`, a block of B may have that is `depth`
/// deep and takes 3/8 of L2. The rest is left for the strips of A and C that pass by.
int panel_block_width(std::int64_t l2_bytes, int depth, int panel);

/// FMAs for each element of A and B fetched from memory by T x T tiles: T^3 / (2 T^2).
constexpr double fmas_per_load(int T) { return T / 2.0; }

/// Misses of the triple loop i, j, k. Three regimes: B fits, M N K / b overall or less; a column's
/// K lines fit, M N K / b; nothing fits, M N K (b: floats in a line).
double naive_misses(Shape shape, Cache cache);

/// Misses of the loops i, k, j: each of A, B and C once while B fits, else B once for every row of
/// C.
double loop_order_misses(Shape shape, Cache cache);

/// Misses of T x T tiles in step 03's order (tiles of C row by row, k0 inside, loops i, k, j within
/// a tile): 2 M N K / (b T) + 2 M N / b while about four tiles fit, one M N / b of it for zeroing
/// C; past that the tile of C, then the tile of B is fetched again and again.
double square_tiling_misses(Shape shape, int T, Cache cache);

/// Misses of step 04's recursion: a block is fetched once when A's, B's and C's parts of it fit. An
/// upper bound, since what one block leaves in the cache may serve the next.
/// Theta(M N K / (b sqrt(Z))): Frigo, Leiserson, Prokop and Ramachandran, FOCS 1999.
double recursive_misses(Shape shape, int leaf, Cache cache);

/// Where step 04 cuts an extent n > 16: near the middle, at a multiple of 16 floats, so that no
/// leaf begins inside a line or a SIMD register's worth.
constexpr int recursion_half(int n) { return ceil_div(n, 32) * 16; }

/// Leaves that an extent of n is cut into. Every other extent is cut independently of it.
constexpr std::int64_t recursion_leaves(int n, int leaf) {
  if (n <= leaf) return 1;
  const int half = recursion_half(n);
  return recursion_leaves(half, leaf) + recursion_leaves(n - half, leaf);
}

}  // namespace gemm
