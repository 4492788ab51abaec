// Step 06: a packed block of B, kept in L2.                  Before: 05_cpu_register_tiling.cpp
// Idea    Cut K into KC and N into NC so that a block of B stays in L2. Copy it once into the order
//         in which the kernel reads it; then all of A passes by, a strip of MR rows at a time.
// Why     Step 05 took each row of a panel of B from another page, often from the same cache set,
//         and fetched all of B from memory once for every MR rows of C.
// Bytes   From memory: B once, A for every NC columns, C twice for every KC of K: 2 FLOP for
//         4 (1 / M + 1 / NC + 2 / KC) bytes, 77 FLOP/byte at KC = 768, NC = 256 and a large M.
// Limit   The FMA units. What is left is the copy, the first touch of C, and ragged edges.
// More    docs/06_cpu_packed.md                      Run   build/steps/06_cpu_packed --m 1024

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/gemm.hpp"
#include "common/machine.hpp"
#include "common/model/cache.hpp"
#include "common/simd.hpp"
#include "common/workspace.hpp"

namespace gemm {
namespace {

using Index = std::int64_t;

// The register tile: MR rows of NV vectors. Its sums, one row of B and one element of A fill the
// registers; both of its sides are as in step 05.
constexpr int MR = 6, NV = vector_registers / 8, NR = NV * lanes;
static_assert(MR * NV + NV + 1 <= vector_registers, "the tile must not spill");

// A tile of fewer vectors has more rows, so that as many sums are in flight: FMAs take 4 clocks.
constexpr int most_rows(int vectors) { return MR * NV / vectors; }

// A few columns that make no vector are multiplied along k instead, where no lane is idle; each
// element then costs a sum over lanes. Tiles of this kind have `columns` x column_rows sums.
constexpr int most_columns = lanes / 4;
constexpr int column_rows(int columns) { return std::min(8, vector_registers / 2 / columns); }
constexpr bool goes_along_k(int columns, int K) {
  constexpr int cost_of_a_sum = 16;  // in FMAs, with its part of starting a tile
  return columns > 0 && columns <= most_columns && columns * (K / lanes + cost_of_a_sum) < K;
}

enum class Packing { where_it_pays, always, never };

// How to cut for an L2 of so many bytes, and what a row of the table leaves out.
struct Plan {
  int KC, NC;
  Index L2;
  Packing packing = Packing::where_it_pays;
  bool fetches_c = true, fetches_a = true;
};

// One call of a micro-kernel: C[rows, vectors] = alpha * A[rows,K] * B[K, vectors] + beta * C.
struct Job {
  int K;
  const float* A;
  Index lda;
  const float* B;
  Index ldb;
  float* C;
  Index ldc;
  int last;  // lanes of the last vector that exist, where it is a ragged one
  float alpha, beta;
  // What to fetch meanwhile: rows of C into L1, and rows of A that come next into L2.
  int c_rows, next_rows;
  const float* next_a;
  Index next_lda;
};

// ---- kernel ----

// `ragged`: the last vector has `last` lanes only. `fetching`: C and the A that comes next are far
// away, and are fetched meanwhile; where they are near, even skipping that would take its time.
enum Kind { plain, ragged, fetching };

template <int rows, int vectors, Kind kind>
void micro_kernel(const Job& job) {
  Vector acc[rows][vectors];
  unroll<rows>([&](auto i) { unroll<vectors>([&](auto v) { acc[i][v] = Vector{}; }); });
  const float *a = job.A, *b = job.B;
  const Index lda = job.lda, ldb = job.ldb;
  const int last = job.last;

  // One k: a column of A times a row of B.
  const auto outer_product = [&]() __attribute__((always_inline)) {
    Vector row[vectors];
    unroll<vectors>([&](auto v) __attribute__((always_inline)) {
      row[v] = kind == ragged && v == vectors - 1 ? load_first(b + v * lanes, last)
                                                  : load(b + v * lanes);
    });
    unroll<rows>([&](auto i) __attribute__((always_inline)) {
      const Vector element = broadcast(a[i * lda]);
      unroll<vectors>([&](auto v) __attribute__((always_inline)) {
        acc[i][v] = multiply_add(acc[i][v], element, row[v]);
      });
    });
    a += 1;
    b += ldb;
  };
  int k = 0;
  const auto four = [&]() __attribute__((always_inline)) {
    unroll<4>([&](auto) __attribute__((always_inline)) { outer_product(); });
    k += 4;
  };

  if constexpr (kind == fetching) {
    // A line at a time: a core has room for 10 to 16 lines on their way, and a burst would stall it.
    const float* c = job.C;
    for (int i = 0; i < job.c_rows && k + 4 <= job.K; ++i, c += job.ldc) {
      for (int v = 0; v < vectors; ++v) __builtin_prefetch(c + v * lanes, 1);
      four();
    }
    for (int r = 0; r < job.next_rows; ++r) {
      const float* next_a = job.next_a + r * job.next_lda;
      for (const float* end = next_a + job.K; next_a < end && k + 4 <= job.K; next_a += 16) {
        __builtin_prefetch(next_a, 0, 2);
        four();
      }
    }
  }
  while (k + 4 <= job.K) four();
  for (; k < job.K; ++k) outer_product();

  // Copies: a store into C might change the job's floats, for all that the compiler knows.
  float* const C = job.C;
  const Index ldc = job.ldc;
  const float alpha = job.alpha, beta = job.beta;
  const auto write = [&](auto old) __attribute__((always_inline)) {
    unroll<rows>([&](auto i) {
      unroll<vectors>([&](auto v) {
        float* c = C + i * ldc + v * lanes;
        const bool partly = kind == ragged && v == vectors - 1;
        Vector sum = alpha * acc[i][v];
        if (old) sum += beta * (partly ? load_first(c, last) : load(c));
        partly ? store_first(c, sum, last) : store(c, sum);
      });
    });
  };
  beta == 0 ? write(std::false_type{}) : write(std::true_type{});
}

// The same for a few columns, along k. B is stored column by column here, ldb apart.
template <int rows, int columns>
void column_kernel(const Job& job) {
  Vector acc[rows][columns];
  unroll<rows>([&](auto i) { unroll<columns>([&](auto c) { acc[i][c] = Vector{}; }); });

  const auto inner_product = [&](int k, auto load_lanes) __attribute__((always_inline)) {
    Vector b[columns];
    unroll<columns>([&](auto c) { b[c] = load_lanes(job.B + c * job.ldb + k); });
    unroll<rows>([&](auto i) {
      const Vector a = load_lanes(job.A + i * job.lda + k);
      unroll<columns>([&](auto c) { acc[i][c] = multiply_add(acc[i][c], a, b[c]); });
    });
  };
  int k = 0;
  for (; k + lanes <= job.K; k += lanes) inner_product(k, [](const float* p) { return load(p); });
  if (const int rest = job.K - k; rest > 0)
    inner_product(k, [rest](const float* p) { return load_first(p, rest); });

  const float alpha = job.alpha, beta = job.beta;
  unroll<rows>([&](auto i) {
    unroll<columns>([&](auto c) {
      float& element = job.C[i * job.ldc + c];
      const float old = beta != 0 ? beta * element : 0;
      element = alpha * sum(acc[i][c]) + old;
    });
  });
}

using MicroKernel = void (*)(const Job&);

// kernels[kind][vectors - 1][rows - 1]; null above most_rows(vectors).
using ByRows = std::array<MicroKernel, most_rows(1)>;
using ByVectors = std::array<ByRows, NV>;

template <int vectors, Kind kind>
constexpr ByRows by_rows = []<int... i>(std::integer_sequence<int, i...>) {
  return ByRows{micro_kernel<i + 1, vectors, kind>...};
}
(std::make_integer_sequence<int, most_rows(vectors)>{});

template <Kind kind>
constexpr ByVectors by_vectors = []<int... i>(std::integer_sequence<int, i...>) {
  return ByVectors{by_rows<i + 1, kind>...};
}
(std::make_integer_sequence<int, NV>{});

constexpr std::array kernels = {by_vectors<plain>, by_vectors<ragged>, by_vectors<fetching>};

template <int columns>
constexpr auto column_kernels = []<int... i>(std::integer_sequence<int, i...>) {
  return std::array<MicroKernel, sizeof...(i)>{column_kernel<i + 1, columns>...};
}
(std::make_integer_sequence<int, column_rows(columns)>{});

// Calls body(n) with `n`, 1 .. most, as a constant.
template <int most, typename Body>
void with_constant(int n, Body body) {
  [&]<int... i>(std::integer_sequence<int, i...>) {
    (void)((n == i + 1 && (body(std::integral_constant<int, i + 1>{}), true)) || ...);
  }
  (std::make_integer_sequence<int, most>{});
}

// ---- loops ----

// Panels of B next to each other that are equally wide.
struct Panels {
  int first, count, vectors;  // `first` is a vector's number

  int column(int panel) const { return (first + panel * vectors) * lanes; }
};

// Columns col0 .. of B, rows k0 .. k0 + K of it: panels, of which the last vector may have `last`
// lanes only, then columns that are multiplied alone.
struct Block {
  int k0, K, col0, vectors, last, columns;
  std::array<Panels, 2> panels;

  bool is_ragged(const Panels& p, int panel) const {
    return last < lanes && p.first + (panel + 1) * p.vectors == vectors;
  }
  // Where the columns begin that are multiplied alone.
  int alone() const { return vectors * lanes - (lanes - last); }
};

// As few panels as there can be, nearly equally wide: five vectors are 3 + 2, not 4 and a lone one.
std::array<Panels, 2> panels_of(int vectors) {
  if (vectors <= NV) return {{{0, vectors > 0, vectors}, {}}};
  const int count = ceil_div(vectors, NV), narrow = vectors / count, wider = vectors % count;
  const int first = wider * (narrow + 1);
  return {{{0, wider, narrow + 1}, {first, count - wider, narrow}}};
}

Block block_of(int k0, int K, int col0, int width) {
  const int left_over = width % lanes;
  const int columns = goes_along_k(left_over, K) ? left_over : 0;
  const int vectors = ceil_div(width - columns, lanes);
  return {.k0 = k0,
          .K = K,
          .col0 = col0,
          .vectors = vectors,
          .last = columns > 0 || left_over == 0 ? lanes : left_over,
          .columns = columns,
          .panels = panels_of(vectors)};
}

// The length of nearly equal parts, multiples of `unit` and at most `largest` long.
int part(int total, int largest, int unit) {
  if (total <= largest) return std::max(total, 1);
  const int parts = ceil_div(total, largest);
  return std::min(largest, ceil_div(ceil_div(total, parts), unit) * unit);
}

// Calls body(begin, length) for nearly equal parts of at most `largest`: never a lone last row.
template <typename Body>
void for_each_part(int total, int largest, Body body) {
  if (total <= 0) return;
  if (total <= largest) return body(0, total);
  const int parts = ceil_div(total, largest), shorter = total / parts, longer = total % parts;
  for (int i = 0, begin = 0; i < parts; ++i) {
    const int length = shorter + (i < longer);
    body(begin, length);
    begin += length;
  }
}

// The walk over a product of this shape. `visit` multiplies, or counts.
template <typename Visit>
void for_each_tile(Shape s, const Plan& plan, bool packed, Visit& visit) {
  const int KC = part(s.K, plan.KC, 16), NC = packed ? part(s.N, plan.NC, NR) : s.N;
  for (int k0 = 0; k0 < s.K; k0 += KC)
    for (int col0 = 0; col0 < s.N; col0 += NC) {
      const Block block = block_of(k0, std::min(KC, s.K - k0), col0, std::min(NC, s.N - col0));
      visit.begin(block);
      const auto multiply_rows = [&](int row0, int rows) {
        for (const Panels& panels : block.panels) {
          if (panels.count == 0) continue;
          const int most = most_rows(panels.vectors);
          const auto tile = [&](int p, int row, int height) {
            visit.tile(block, panels, p, row0 + row, height);
          };
          // In L2, a strip of A meets all panels. What is read in place may be large, and its
          // reader has few rows: panel by panel.
          if (packed)
            for_each_part(rows, most, [&](int row, int height) {
              for (int p = 0; p < panels.count; ++p) tile(p, row, height);
            });
          else
            for (int p = 0; p < panels.count; ++p)
              for_each_part(rows, most, [&](int row, int height) { tile(p, row, height); });
        }
        if (block.columns > 0)
          for_each_part(rows, column_rows(block.columns),
                        [&](int row, int height) { visit.columns(block, row0 + row, height); });
      };
      if (packed)
        for_each_part(s.M, most_rows(1), multiply_rows);
      else
        multiply_rows(0, s.M);
    }
}

// Copies K rows of so many vectors to where they lie one behind the other. Of the last vector,
// `last` lanes exist.
template <int vectors>
void pack_panel(int K, const float* B, Index ldb, int last, float* packed) {
  for (int k = 0; k < K; ++k, B += ldb, packed += vectors * lanes)
    unroll<vectors>([&](auto v) {
      const bool partly = v == vectors - 1 && last < lanes;
      store(packed + v * lanes, partly ? load_first(B + v * lanes, last) : load(B + v * lanes));
    });
}

// Whether A and C are too large for L2, so that fetching them ahead is worth its instructions.
bool is_far(Shape s, const Plan& plan) { return 4 * Index{s.M} * (Index{s.K} + s.N) > plan.L2; }

class Multiply {
 public:
  Multiply(const Problem& problem, const Plan& plan, bool packed, float* room)
      : p_(problem), plan_(plan), packed_(packed), far_(is_far(problem.shape, plan)), room_(room) {}

  void begin(const Block& block) {
    const float* B = p_.B + block.k0 * p_.ldb + block.col0;
    if (packed_) pack_block(block, B);
    for (int c = 0; c < block.columns; ++c)
      for (int k = 0; k < block.K; ++k)
        place(block, block.alone() + c)[k] = B[k * p_.ldb + block.alone() + c];
    job_ = {.K = block.K,
            .A = nullptr,
            .lda = p_.lda,
            .B = nullptr,
            .ldb = 0,
            .C = nullptr,
            .ldc = p_.ldc,
            .last = block.last,
            .alpha = p_.alpha,
            .beta = block.k0 == 0 ? p_.beta : 1,
            .c_rows = 0,
            .next_rows = 0,
            .next_a = nullptr,
            .next_lda = 0};
  }

  void tile(const Block& block, const Panels& panels, int panel, int row, int rows) {
    aim(block, row, panels.column(panel), panels.vectors * lanes);
    Kind kind = block.is_ragged(panels, panel) ? ragged : plain;
    if (far_ && kind == plain) {
      kind = fetching;
      // The first panels of this strip share the rows of the next one out among them.
      const bool more = plan_.fetches_a && packed_ && panels.first == 0;
      const bool fetches = more && panel < rows && row + 2 * rows <= p_.shape.M;
      job_.c_rows = plan_.fetches_c ? rows : 0;
      job_.next_rows = fetches ? ceil_div(rows - panel, panels.count) : 0;
      job_.next_a = job_.A + (rows + panel) * p_.lda;
      job_.next_lda = panels.count * p_.lda;
    }
    kernels[kind][panels.vectors - 1][rows - 1](job_);
  }

  void columns(const Block& block, int row, int rows) {
    aim(block, row, block.alone(), block.columns);
    // Copied in place as well, one column behind the other.
    job_.B = place(block, block.alone());
    job_.ldb = block.K;
    with_constant<most_columns>(block.columns,
                                [&](auto columns) { column_kernels<columns>[rows - 1](job_); });
  }

 private:
  // What is packed of a column begins behind all columns before it. In place, only columns that
  // are multiplied alone are copied.
  float* place(const Block& block, int column) const {
    return room_ + Index{block.K} * (packed_ ? column : column - block.alone());
  }

  // At a tile that is `width` columns wide.
  void aim(const Block& block, int row, int column, int width) {
    job_.A = p_.A + row * p_.lda + block.k0;
    job_.B = packed_ ? place(block, column) : p_.B + block.k0 * p_.ldb + block.col0 + column;
    job_.ldb = packed_ ? width : p_.ldb;
    job_.C = p_.C + row * p_.ldc + block.col0 + column;
  }

  // Row by row of B, four at a time: the copy reads memory in the order in which it lies.
  void pack_block(const Block& block, const float* B) {
    for (int k = 0; k < block.K; k += 4) {
      const int rows = std::min(4, block.K - k);
      for (const Panels& panels : block.panels)
        for (int p = 0; p < panels.count; ++p)
          with_constant<NV>(panels.vectors, [&](auto vectors) {
            const int column = panels.column(p);
            pack_panel<vectors>(rows, B + k * p_.ldb + column, p_.ldb,
                                block.is_ragged(panels, p) ? block.last : lanes,
                                place(block, column) + k * vectors * lanes);
          });
    }
  }

  const Problem& p_;
  const Plan& plan_;
  const bool packed_, far_;
  float* const room_;
  Job job_{};
};

// C = beta * C; beta == 0 does not read it.
void scale(const Problem& p) {
  for (int i = 0; i < p.shape.M; ++i) {
    float* c = p.C + i * p.ldc;
    for (int j = 0; j < p.shape.N; ++j) c[j] = p.beta != 0 ? p.beta * c[j] : 0;
  }
}

// A block that fits into L2 as it lies is read in place, unless its rows are a multiple of a page
// apart and compete for the same sets; and a few rows of C do not pay for copying all of B.
bool packs(Shape s, Index ldb, const Plan& plan) {
  if (plan.packing != Packing::where_it_pays) return plan.packing == Packing::always;
  const bool fits = Index{s.K} * s.N <= Index{plan.KC} * plan.NC;
  return s.M > most_rows(1) && !(fits && ldb % 1024 != 0);
}

std::size_t room_floats(const Plan& plan) { return std::size_t(plan.KC) * (plan.NC + NR); }

// One task.
void multiply(const Problem& p, const Plan& plan, float* room) {
  if (p.shape.K == 0 || p.alpha == 0) return scale(p);
  const bool packed = packs(p.shape, p.ldb, plan);
  Multiply visit(p, plan, packed, room);
  for_each_tile(p.shape, plan, packed, visit);
}

// ---- threads ----

// C is shared out as a grid of tasks. Each packs the block of B that it needs and waits for nobody.
// There are more tasks than threads, and who is done takes the next one: cores are not equally fast.
struct Tasks {
  int rows = 1, columns = 1;
  int count() const { return rows * columns; }
};

Tasks tasks_of(Shape s, int threads) {
  constexpr double worth_a_task = 4e6;  // FLOP: waking a thread takes microseconds
  const double work = 2.0 * s.M * s.N * s.K;
  if (threads == 1 || work < 2 * worth_a_task) return {};
  const int wanted = static_cast<int>(std::min(4.0 * threads, work / worth_a_task));
  const int strips = ceil_div(s.M, MR), panels = ceil_div(s.N, NR);
  Tasks best;
  double least = std::numeric_limits<double>::infinity();
  for (int columns = 1; columns <= std::min(panels, wanted); ++columns) {
    // Few panels that do not share out evenly would leave some tasks twice as wide as others.
    if (panels % columns != 0 && panels < 4 * columns) continue;
    const int rows = std::min(strips, ceil_div(wanted, columns));
    // A task reads its rows of A; it reads its columns of B, and writes them when it packs.
    const double moved = double(s.M) / rows + 2.0 * s.N / columns;
    if (moved < least) best = {rows, columns}, least = moved;
  }
  return best;
}

// This thread's number among those that work on tasks.
int this_thread() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

Run prepare(const Problem& p, const Plan& plan) {
  const Tasks tasks = tasks_of(p.shape, p.threads);
  const int threads = std::min(p.threads, tasks.count());
  const auto rooms = std::make_shared<std::vector<std::unique_ptr<Workspace>>>();
  for (int i = 0; i < threads; ++i)
    rooms->push_back(std::make_unique<Workspace>(room_floats(plan)));

  if (threads == 1) return {[=](Stream) { multiply(p, plan, rooms->front()->data()); }};
  return {[=](Stream) {
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int i = 0; i < tasks.count(); ++i) {
      const int r = i / tasks.columns, c = i % tasks.columns;
      const int row0 = share_begin(p.shape.M, r, tasks.rows, MR);
      const int col0 = share_begin(p.shape.N, c, tasks.columns, NR);
      Problem mine = p;
      mine.shape.M = share_begin(p.shape.M, r + 1, tasks.rows, MR) - row0;
      mine.shape.N = share_begin(p.shape.N, c + 1, tasks.columns, NR) - col0;
      mine.A += row0 * p.lda;
      mine.B += col0;
      mine.C += row0 * p.ldc + col0;
      multiply(mine, plan, (*rooms)[this_thread()]->data());
    }
  }};
}

// ---- traffic ----

// What one task asks for: the same walk, counting floats.
struct Counted {
  bool packed;
  Index loaded = 0, stored = 0;

  void begin(const Block& block) {
    loaded += Index{block.K} * ((packed ? block.alone() : 0) + block.columns);
    stored += Index{block.K} * ((packed ? block.vectors * lanes : 0) + block.columns);
  }
  void tile(const Block& block, const Panels& panels, int panel, int, int rows) {
    const int missing = block.is_ragged(panels, panel) ? lanes - block.last : 0;
    add(block, rows, panels.vectors * lanes - missing);
  }
  void columns(const Block& block, int, int rows) { add(block, rows, block.columns); }

 private:
  void add(const Block& block, int rows, int columns) {
    loaded += Index{block.K} * (rows + columns) + (block.k0 > 0 ? rows * columns : 0);
    stored += rows * columns;
  }
};

Traffic traffic(Shape s, const Plan& plan) {
  if (s.K == 0) return {.global_stored = Index{4} * s.M * s.N};
  const bool packed = packs(s, s.N, plan);
  Counted counted{packed};
  for_each_tile(s, plan, packed, counted);
  return {.global_loaded = 4 * counted.loaded, .global_stored = 4 * counted.stored};
}

// ---- rows ----

Kernel row(const std::string& name, const Plan& plan) {
  return {.name = name,
          .prepare = [plan](const Problem& p) { return prepare(p, plan); },
          .traffic = [plan](Shape s) { return traffic(s, plan); },
          .tile = {.BN = plan.NC, .BK = plan.KC, .TM = MR, .TN = NR}};
}

// First the blocks that the model finds for this machine's caches, then the same without each of
// its parts, then other blocks.
std::vector<Kernel> rows() {
  const std::vector<MemoryLevel> caches = cpu_caches();
  const Index L1 = caches.empty() ? 32 << 10 : caches[0].bytes;
  const Index L2 = caches.size() < 2 ? 512 << 10 : caches[1].bytes;
  const int KC = panel_depth(L1, MR), NC = panel_block_width(L2, KC, NR);

  const Plan best{.KC = KC, .NC = NC, .L2 = L2};
  std::vector<Kernel> all = {row("complete", best)};
  const auto without = [&](const std::string& name, auto change) {
    Plan plan = best;
    change(plan);
    all.push_back(row("without " + name, plan));
  };
  without("packing", [](Plan& plan) { plan.packing = Packing::never; });
  without("reading in place", [](Plan& plan) { plan.packing = Packing::always; });
  without("fetching C", [](Plan& plan) { plan.fetches_c = false; });
  without("fetching A", [](Plan& plan) { plan.fetches_a = false; });
  // Where NC is a panel or two, parts of it are the same width: a set has each of them once.
  std::set<int> widths;
  for (const int width : {NC / 4, NC, 4 * NC}) widths.insert(std::max(1, width / NR) * NR);
  for (const int depth : {KC / 4, KC, 2 * KC})
    for (const int width : widths)
      all.push_back(row("KC=" + std::to_string(depth) + " NC=" + std::to_string(width),
                        {.KC = depth, .NC = width, .L2 = L2}));
  return all;
}

const Register step{{.name = "06_cpu_packed",
                     .title = "CPU, packed panels and cache blocks",
                     .device = this_device,
                     .kernels = rows(),
                     .sizes = {1000, 1024},
                     .whole_contract = true}};

}  // namespace
}  // namespace gemm
