// Step 22: the tensor core of a CPU.                                     Before: 06_cpu_packed.cpp
// Idea    AMX multiplies whole tiles: 16 x 32 BF16 of A by 32 x 16 of B, added to 16 x 16 fp32 of C,
//         in one instruction. Both are packed in blocks, and sums of a block of C wait in L2.
// Why     16384 FLOP in 16 clocks are 16 times those of two AVX-512 FMAs. Step 06's kernel is fed
//         with a vector a clock, this one needs 64 bytes a clock if nothing is near.
// Bytes   A tile of 1 KiB for one accumulator serves 16 clocks: 1x1 asks for 8 FLOP/byte of L1,
//         2x2 for 16. Of L2, where A's strip stays in L1: 32, and KC / 4 for sums of C.
// Limit   Sums are stored and loaded again for each KC, and operands must be packed first.
// More    docs/22_cpu_amx.md            Run   build/steps/22_cpu_amx --size 2048

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/amx/peak.hpp"
#include "common/amx/tile.hpp"
#include "common/bfloat16.hpp"
#include "common/gemm.hpp"
#include "common/machine.hpp"
#include "common/simd.hpp"
#include "common/workspace.hpp"

namespace gemm {
namespace {

using Index = std::int64_t;

// Entries of a tile of A or B.
constexpr int tile_size = tile_rows * tile_depth;

// What a row of the table is made of. A block of B, KC x NC, is packed whole and used for MC rows;
// MC x NC sums are kept until all of K is added up.
struct Blocking {
  int MC, NC, KC;
  bool pack_a = true, buffer_c = true, fetch_l2 = true, fetch_c = true;
};

constexpr int unlimited = std::numeric_limits<int>::max();

constexpr Index round_up(Index n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

// --------------------------------------------------------------------------------------- packing

// Types as the compiler's own vectors, without a promise of alignment: 32 entries, and 16.
using Line [[gnu::vector_size(64), gnu::aligned(2), gnu::may_alias]] = std::uint16_t;
using Half [[gnu::vector_size(32), gnu::aligned(2), gnu::may_alias]] = std::uint16_t;

// The first `count` of `size` entries, zeros after them.
template <int size>
struct Padded {
  Padded(const bfloat16* from, int count) {
    for (int i = 0; i < count; ++i) entries[i] = from[i];
  }
  alignas(64) bfloat16 entries[size] = {};
};

// A strip: for each 32 columns, MR rows of A; zero outside of A.
template <int MR>
void pack_a(const bfloat16* A, Index lda, int rows, int depth, bfloat16* to) {
  for (int r = 0; r < MR; ++r)
    for (int k = 0; k < depth; k += tile_depth) {
      const int count = r < rows ? std::min(tile_depth, depth - k) : 0;
      Line& line = *reinterpret_cast<Line*>(to + Index{k} * MR + r * tile_depth);
      if (count == tile_depth)
        line = *reinterpret_cast<const Line*>(A + r * lda + k);
      else
        line = *reinterpret_cast<const Line*>(Padded<tile_depth>(A + r * lda + k, count).entries);
    }
}

// Entries of two rows become pairs, as TDPBF16PS wants them: one permutation with AVX-512.
void pack_pairs(const bfloat16* row, const bfloat16* next, bfloat16* to) {
  [&]<int... i>(std::integer_sequence<int, i...>) {
    *reinterpret_cast<Line*>(to) = __builtin_shufflevector(*reinterpret_cast<const Half*>(row),
                                                           *reinterpret_cast<const Half*>(next),
                                                           (i / 2 + i % 2 * tile_rows)...);
  }
  (std::make_integer_sequence<int, tile_depth>{});
}

// Panels of NR columns: for each 32 rows of B, NR / 16 tiles; zero outside of B. Rows are read to
// their end, which is what hardware that fetches ahead is made for.
template <int NR>
void pack_b(const bfloat16* B, Index ldb, int depth, int cols, bfloat16* to) {
  const Index panel = round_up(depth, tile_depth) * NR;
  for (int k = 0; k < round_up(depth, tile_depth); k += 2)
    for (int c = 0; c < round_up(cols, NR); c += tile_rows) {
      const bfloat16 *row = B + k * ldb + c, *next = row + ldb;
      bfloat16* pairs = to + c / NR * panel + Index{k / tile_depth} * tile_depth * NR +
                        c % NR * tile_depth + k % tile_depth * tile_rows;
      const int count = std::clamp(cols - c, 0, tile_rows);
      if (count == tile_rows && k + 1 < depth)
        pack_pairs(row, next, pairs);
      else
        pack_pairs(Padded<tile_rows>(row, k < depth ? count : 0).entries,
                   Padded<tile_rows>(next, k + 1 < depth ? count : 0).entries, pairs);
    }
}

// Lines of memory that will be wanted soon: `bytes` of each of so many rows, fetched in equal shares
// by as many calls of fetch, while something else is computed.
struct Ahead {
  Ahead(const void* at, Index row_bytes, Index bytes, Index rows, Index calls)
      : at(static_cast<const char*>(at)),
        row_bytes(row_bytes),
        bytes(bytes),
        rows(rows),
        share(calls > 0 ? ((bytes + 63) / 64 * rows + calls - 1) / calls : 0) {}

  template <bool to_write, int locality>
  void fetch() {
    for (Index i = 0; i < share && rows > 0; ++i) {
      __builtin_prefetch(at + done, to_write, locality);
      done += 64;
      if (done < bytes) continue;
      done = 0;
      at += row_bytes;
      --rows;
    }
  }

  const char* at;
  Index row_bytes, bytes, rows, share, done = 0;
};

// ---------------------------------------------------------------------------------------- kernel

// A strip of A: distances in entries from row to row of a tile, from tile to tile, and from 32
// columns to the next.
struct Strip {
  const bfloat16* at;
  Index row, tile, step;
};

// MR x NR sums in rows, in C or in a buffer. No `at`: they begin at zero.
struct Sums {
  float* at;
  Index ld;
};

// to = from + A's strip * B's panel, summed up in tiles. Not inlined: what the loops around it hold
// would take its registers.
template <int MR, int NR>
[[gnu::noinline]] void multiply(Tiles& tiles, int depth, Strip A, const bfloat16* B, Sums from,
                                Sums to, Ahead& next_a, Ahead& next_b, Ahead C) {
  constexpr int R = MR / tile_rows, S = NR / tile_rows, sums = R * S, spare = 8 - sums - S;
  static_assert(spare > 0, "eight tiles hold the sums, a row of tiles of B and one tile of A");

  unroll<sums>([&](auto i) {
    if (from.at)
      tiles.load<i>(from.at + i / S * tile_rows * from.ld + i % S * tile_rows,
                    from.ld * sizeof(float));
    else
      tiles.zero<i>();
  });
  for (int k = 0; k < depth; k += tile_depth) {
    unroll<R>([&](auto i) {
      constexpr int a = sums + S + i % spare;
      tiles.load<a>(A.at + i * A.tile, A.row * sizeof(bfloat16));
      unroll<S>([&](auto j) {
        constexpr int b = sums + j;
        if constexpr (i == 0) tiles.load<b>(B + j * tile_size, tile_row_bytes);
        tiles.multiply_add<i * S + j, a, b>();
      });
    });
    A.at += A.step;
    B += S * tile_size;
    next_a.fetch<false, 2>();
    next_b.fetch<false, 2>();
    C.fetch<true, 3>();
  }
  unroll<sums>([&](auto i) {
    tiles.store<i>(to.at + i / S * tile_rows * to.ld + i % S * tile_rows, to.ld * sizeof(float));
  });
}

// C = alpha * sums + beta * C, for the rows and columns that C has.
void write_c(Sums sums, int rows, int cols, float alpha, float beta, float* C, Index ldc) {
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; c += lanes) {
      const float* s = sums.at + r * sums.ld + c;
      float* to = C + r * ldc + c;
      const int width = std::min(lanes, cols - c);
      const bool whole = width == lanes;
      Vector sum = alpha * (whole ? load(s) : load_first(s, width));
      if (beta != 0) sum += beta * (whole ? load(to) : load_first(to, width));
      whole ? store(to, sum) : store_first(to, sum, width);
    }
}

// ----------------------------------------------------------------------------------------- loops

// Rows and columns of C that one thread computes.
struct Part {
  int row0, rows, col0, cols;
};

// A block of C and of K.
struct Block : Part {
  int k0, depth;
  bool first_rows, first, last;
};

// Blocks in their order. C changes slowest, so that sums of MC x NC stay in L2 for all of K. Without
// K there is one block of depth 0 for the sake of beta * C.
template <typename Body>
void for_each_block(Part part, int K, const Blocking& t, Body body) {
  const int MC = std::min(t.MC, part.rows), NC = std::min(t.NC, part.cols);
  const int KC = std::clamp(K, 1, t.KC);
  for (int col = 0; col < part.cols; col += NC)
    for (int row = 0; row < part.rows; row += MC)
      for (int k0 = 0; k0 == 0 || k0 < K; k0 += KC)
        body(Block{{part.row0 + row, std::min(MC, part.rows - row), part.col0 + col,
                    std::min(NC, part.cols - col)},
                   k0,
                   std::min(KC, K - k0),
                   row == 0,
                   k0 == 0,
                   k0 + KC >= K});
}

// What a thread packs into: a strip of A, the columns of B in use for all of K, and sums.
struct Buffers {
  Buffers(Part part, int K, const Blocking& t, int MR, int NR)
      : part(part),
        A(MR * round_up(std::min(K, t.KC), tile_depth) / 2),
        B(round_up(std::min(t.NC, part.cols), NR) * round_up(K, tile_depth) / 2),
        sums(K > t.KC
                 ? round_up(std::min(t.MC, part.rows), MR) * round_up(std::min(t.NC, part.cols), NR)
                 : 0),
        result(MR * NR) {}
  Part part;
  Workspace A, B, sums, result;
};

// Whether tiles of A can be loaded from where they are: TILELOADD takes any distance of rows.
bool in_place(const Blocking& t, bool whole, int depth) {
  return !t.pack_a && whole && depth % tile_depth == 0;
}

// Whether tiles can be stored to where C is: the sums are all that C will hold.
bool straight(const Blocking& t, const Block& block, bool whole) {
  return whole && block.last && (block.first || t.buffer_c);
}

template <int MR, int NR>
void multiply_part(const Problem& p, const Blocking& t, const Buffers& buffers) {
  Tiles tiles;
  const int K = p.alpha == 0 ? 0 : p.shape.K;
  auto* const As = reinterpret_cast<bfloat16*>(buffers.A.data());
  auto* const Bs = reinterpret_cast<bfloat16*>(buffers.B.data());
  const Sums none{}, result{buffers.result.data(), NR};

  for_each_block(buffers.part, K, t, [&](const Block& block) {
    const Index steps = ceil_div(block.depth, tile_depth), depth = steps * tile_depth;
    const int strips = ceil_div(block.rows, MR), panels = ceil_div(block.cols, NR);

    // 1. B's block is packed when it is first needed, and kept. Meanwhile the next one is fetched.
    const bfloat16* const b_source = p.B16 + block.k0 * p.ldb + block.col0;
    bfloat16* const B = Bs + Index{block.k0} * panels * NR;
    if (block.first_rows) pack_b<NR>(b_source, p.ldb, block.depth, block.cols, B);
    const Index size = panels * NR * depth, calls = t.fetch_l2 ? panels * steps : 0;
    Ahead next_b = block.first_rows && !block.last
                       ? Ahead(b_source + block.depth * p.ldb, p.ldb * 2, block.cols * 2,
                               std::min(t.KC, K - block.k0 - block.depth), strips * calls)
                       : Ahead(block.last ? Bs : B + size, 0, size * 2, 1, strips * calls);

    for (int i = 0; i < strips; ++i) {
      // 2. A strip of A is packed for all columns of the block, and the next one is fetched.
      const int row0 = block.row0 + i * MR, rows = std::min(MR, block.rows - i * MR);
      const bfloat16* const a_source = p.A16 + row0 * p.lda + block.k0;
      Strip A{As, tile_depth, tile_size, MR * tile_depth};
      if (in_place(t, rows == MR, block.depth))
        A = {a_source, p.lda, tile_rows * p.lda, tile_depth};
      else
        pack_a<MR>(a_source, p.lda, rows, block.depth, As);
      Ahead next_a(a_source + MR * p.lda, p.lda * 2, block.depth * 2,
                   std::clamp(block.rows - (i + 1) * MR, 0, MR), calls);

      for (int j = 0; j < panels; ++j) {
        // 3. The sums come from the blocks of K before this one, and go to the next one or to C.
        const int cols = std::min(NR, block.cols - j * NR);
        const bool finish = block.last || !t.buffer_c;
        const bool direct =
            straight(t, block, rows == MR && cols == NR) && p.alpha == 1 && p.beta == 0;
        float* const C = p.C + row0 * p.ldc + block.col0 + j * NR;
        const Sums sums{buffers.sums.data() + (Index{i} * panels + j) * MR * NR, NR};
        const Ahead next_c(C, p.ldc * 4, cols * 4, rows, finish && t.fetch_c ? steps : 0);
        multiply<MR, NR>(tiles, block.depth, A, B + j * NR * depth,
                         block.first || !t.buffer_c ? none : sums,
                         direct   ? Sums{C, p.ldc}
                         : finish ? result
                                  : sums,
                         next_a, next_b, next_c);
        if (finish && !direct)
          write_c(result, rows, cols, p.alpha, block.first || t.buffer_c ? p.beta : 1, C, p.ldc);
      }
    }
  });
}

// A grid of parts, one for each thread, whose sides are shortest: each thread packs its own rows of
// A and columns of B.
std::vector<Part> parts_of(Shape s, int MR, int NR, int threads) {
  int down = 1;
  const auto side = [&](int n) { return double(s.M) / n + double(s.N) * n / threads; };
  for (int n = 2; n <= threads; ++n)
    if (threads % n == 0 && side(n) < side(down)) down = n;
  const int across = threads / down;
  std::vector<Part> parts;
  for (int i = 0; i < threads; ++i) {
    const int r = i / across, c = i % across;
    const int row0 = share_begin(s.M, r, down, MR), col0 = share_begin(s.N, c, across, NR);
    parts.push_back({row0, share_begin(s.M, r + 1, down, MR) - row0, col0,
                     share_begin(s.N, c + 1, across, NR) - col0});
  }
  return parts;
}

template <int MR, int NR>
Run prepare(const Problem& p, const Blocking& t) {
  // The emulator traces one thread.
  const int threads = this_device == Device::emulator ? 1 : p.threads;
  const auto buffers = std::make_shared<std::deque<Buffers>>();
  for (const Part part : parts_of(p.shape, MR, NR, threads))
    buffers->emplace_back(part, p.shape.K, t, MR, NR);
  return {[p, t, buffers, threads](Stream) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int i = 0; i < threads; ++i) multiply_part<MR, NR>(p, t, (*buffers)[i]);
  }};
}

// What one thread asks for, with alpha = 1 and beta = 0: the same blocks, without their data.
template <int MR, int NR>
Traffic traffic(Shape s, const Blocking& t) {
  Traffic bytes;
  const auto loaded = [&](Index count, Index size) { bytes.global_loaded += count * size; };
  const auto stored = [&](Index count, Index size) { bytes.global_stored += count * size; };
  constexpr Index bf16 = sizeof(bfloat16), fp32 = sizeof(float);
  for_each_block({0, s.M, 0, s.N}, s.K, t, [&](const Block& block) {
    const Index rows = block.rows, cols = block.cols, depth = block.depth;
    const Index padded_rows = round_up(rows, MR), padded_cols = round_up(cols, NR);
    const Index padded = round_up(depth, tile_depth);
    const Index whole_rows = rows / MR * MR, whole_cols = cols / NR * NR;
    // Packing, then a strip of A and a panel of B for each MR x NR of C.
    if (block.first_rows) {
      loaded(depth * cols, bf16);
      stored(padded * padded_cols, bf16);
    }
    const Index unpacked = in_place(t, true, block.depth) ? whole_rows : 0;
    loaded((rows - unpacked) * depth, bf16);
    stored((padded_rows - unpacked) * padded, bf16);
    loaded(padded_rows / MR * (padded_cols / NR) * padded * (MR + NR), bf16);
    // Sums: loaded unless they begin at zero, stored, and written to C in the end.
    if (!block.first && t.buffer_c) loaded(padded_rows * padded_cols, fp32);
    stored(padded_rows * padded_cols, fp32);
    if (!block.last && t.buffer_c) return;
    const Index direct = straight(t, block, true) ? whole_rows * whole_cols : 0;
    loaded((rows * cols - direct) * (block.first || t.buffer_c ? 1 : 2), fp32);
    stored(rows * cols - direct, fp32);
  });
  return bytes;
}

// ------------------------------------------------------------------------------------------ rows

template <int MR, int NR>
Kernel row(std::string name, Blocking t) {
  return {.name = std::move(name),
          .prepare = [t](const Problem& p) { return prepare<MR, NR>(p, t); },
          .traffic = [t](Shape s) { return traffic<MR, NR>(s, t); },
          .tile = {.BM = MR, .BN = NR, .BK = tile_depth},
          .supports = [](Shape) { return why_no_tiles(); }};
}

// A's strip, 32 x KC, takes a third of L1, which panels of B and sums pass through. The sums,
// MC x NC, take a quarter of L2, and a block of B half as much; the next one needs room too.
Blocking blocked() {
  const std::vector<MemoryLevel> caches = cpu_caches();
  const Index L1 = !caches.empty() ? caches[0].bytes : 32 << 10;
  const Index L2 = caches.size() > 1 ? caches[1].bytes : 512 << 10;
  const int KC = static_cast<int>(L1 / 3 / (32 * Index{sizeof(bfloat16)}));
  const int MC = static_cast<int>(std::sqrt(double(L2) / 4 / sizeof(float) / 2));
  const auto multiple = [](int n, int unit) { return std::max(n / unit * unit, unit); };
  return {.MC = multiple(MC, 32), .NC = 2 * multiple(MC, 32), .KC = multiple(KC, tile_depth)};
}

Kernel blocked(const std::string& name, Blocking t) {
  const auto number = [](int n, const char* all) {
    return n == unlimited ? std::string(all) : std::to_string(n);
  };
  return row<32, 32>(
      name + "MC=" + number(t.MC, "M") + " NC=" + number(t.NC, "N") + " KC=" + number(t.KC, "K"),
      t);
}

// The steps of the idea, the last of them without one of its parts at a time, and other sizes.
std::vector<Kernel> kernels() {
  const Blocking once{
      .MC = unlimited, .NC = unlimited, .KC = unlimited, .fetch_l2 = false, .fetch_c = false};
  const auto without = [](bool Blocking::*part) {
    Blocking t = blocked();
    t.*part = false;
    return t;
  };
  std::vector<Kernel> rows{row<16, 16>("1x1 tiles", once),
                           row<32, 32>("2x2 tiles, operands packed once", once),
                           blocked("2x2 tiles, blocked: ", blocked()),
                           row<32, 32>("without packing A", without(&Blocking::pack_a)),
                           row<32, 32>("without a buffer for sums", without(&Blocking::buffer_c)),
                           row<32, 32>("without prefetch into L2", without(&Blocking::fetch_l2)),
                           row<32, 32>("without prefetch of C", without(&Blocking::fetch_c))};
  for (const Blocking t :
       {Blocking{256, 512, 512}, Blocking{512, 512, 512}, Blocking{256, 256, 512},
        Blocking{256, 1024, 512}, Blocking{512, 256, 1024}, Blocking{256, 512, 1024},
        Blocking{unlimited, 256, unlimited}, Blocking{unlimited, 512, unlimited}})
    rows.push_back(blocked("", t));
  return rows;
}

const Register step{{.name = "22_cpu_amx",
                     .title = "CPU, AMX tiles, BF16 operands",
                     .device = this_device,
                     .kernels = kernels(),
                     .sizes = this_device == Device::cpu ? std::vector{2048} : std::vector{256},
                     .operands = Element::bf16,
                     .peak = this_device == Device::cpu ? std::function(tile_peak) : nullptr,
                     .unit = "AMX",
                     .whole_contract = true}};

}  // namespace
}  // namespace gemm
