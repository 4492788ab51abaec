#include "common/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <optional>

#include "common/bfloat16.hpp"
#include "common/error.hpp"

#ifdef __FAST_MATH__
#error "the checker must see NaN: build it without -ffast-math"
#endif

namespace gemm {
namespace {

using Index = std::int64_t;

// Matrices are made, fetched and compared in pieces of this size, so that no size is too big for
// the host.
constexpr Index slab_bytes = Index{64} << 20;
constexpr Index cached_reference_bytes = Index{2} << 30;

// Fewer elements than this are done before other threads have woken up.
constexpr Index worth_threads = 1 << 16;

constexpr double unit_roundoff = 0x1p-24;
constexpr double exact_limit = 0x1p24;
constexpr float wide_exponent = 20;
// A sum of positive numbers grows with K, and what is added to it has fewer and fewer bits beside
// it: then rounding has a direction, and errors grow faster than the bound's sqrt(K). A sum in one
// chain keeps within the bound to this K, and no longer does at 2^20.
constexpr int longest_positive = 1 << 18;

// Guard words before and after an array are NaN with their number in the low bits; 4 KiB keep the
// array as aligned as the allocation.
constexpr std::size_t guard_bytes_each = 4096;
constexpr float gap_value = std::bit_cast<float>(0x7FE70000u);
constexpr unsigned char poison_byte = 0xFF;
constexpr float poison_value = std::bit_cast<float>(0xFFFFFFFFu);

// What a matrix knows of its elements.
template <typename T>
struct Format;

template <>
struct Format<float> {
  using Bits = std::uint32_t;
  static constexpr const char* name = "float";
  static constexpr Bits guard(std::size_t i) { return 0x7FE50000 | i; }
  static float from(float x) { return x; }
};

template <>
struct Format<bfloat16> {
  using Bits = std::uint16_t;
  static constexpr const char* name = "BF16";
  static constexpr Bits guard(std::size_t i) { return 0x7F81 + i % 126; }
  static bfloat16 from(float x) { return to_bfloat16(x); }
};

template <typename T>
const std::vector<T>& guard() {
  static const std::vector<T> elements = [] {
    std::vector<T> tagged(guard_bytes_each / sizeof(T));
    for (std::size_t i = 0; i < tagged.size(); ++i)
      tagged[i] = std::bit_cast<T>(Format<T>::guard(i));
    return tagged;
  }();
  return elements;
}

template <typename T>
bool same_bits(T a, T b) {
  using Bits = typename Format<T>::Bits;
  return std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b);
}

// The finaliser of splitmix64: neighbouring inputs give unrelated outputs.
std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// Two random words become two entries of a matrix.
struct Pair {
  float first, second;
};

Pair entries(Init init, int radius, std::uint64_t random) {
  const std::uint32_t high = random >> 32, low = static_cast<std::uint32_t>(random);
  switch (init) {
    case Init::integers: {
      const auto integer = [&](std::uint64_t word) {
        return static_cast<float>(static_cast<int>(word * (2 * radius + 1) >> 32) - radius);
      };
      return {integer(high), integer(low)};
    }
    case Init::uniform: {
      const auto real = [](std::uint32_t word) { return (word >> 8) * 0x1p-23f - 1; };
      return {real(high), real(low)};
    }
    case Init::positive: {
      const auto real = [](std::uint32_t word) { return (word >> 8) * 0x1p-24f; };
      return {real(high), real(low)};
    }
    case Init::wide: {
      // Products are below 2^40, and 2^31 of them add up to less than 2^71. Entries of 24 bits are
      // multiples of 2^-43: what is left when sums cancel is 0 or at least 2^-86. So nothing
      // overflows and nothing is subnormal, and every rounding is off by at most u.
      const auto real = [](std::uint32_t word) {
        const float magnitude =
            std::exp2((word >> 8) * (2 * wide_exponent * 0x1p-24f) - wide_exponent);
        return word & 1 ? -magnitude : magnitude;
      };
      return {real(high), real(low)};
    }
    case Init::normal: {  // Box and Muller, Ann. Math. Statist. 29, 1958
      const float length = std::sqrt(-2 * std::log(((high >> 8) + 0.5f) * 0x1p-24f));
      const float angle = 2 * std::numbers::pi_v<float> * ((low >> 8) * 0x1p-24f);
      return {length * std::cos(angle), length * std::sin(angle)};
    }
    case Init::zeros:
      break;
  }
  return {0, 0};
}

// A row-major matrix in device memory between its guards. Contents are a function of its first
// letter, init, seed, row and column, so that they can be made again instead of being kept, and are
// the same in every format that can hold them.
template <typename T>
class Matrix {
 public:
  Matrix(Backend& backend, const std::string& name, Index rows, Index cols, Index ld, Init init,
         int seed, int radius, Element entries)
      : name(name),
        rows(rows),
        cols(cols),
        ld(ld ? ld : cols),
        backend_(backend),
        init_(init),
        draw_(scramble(name.front() + (static_cast<std::uint64_t>(seed) << 8))),
        radius_(radius),
        entries_(entries),
        guard_bytes_(backend.checks_bounds() ? 0 : guard_bytes_each),
        buffer_(backend, 2 * guard_bytes_ + bytes(), name) {
    if (this->ld < cols)
      throw Refusal(Exit::bad_usage,
                    fmt::format("ld{} = {} is less than the {} columns of {}",
                                char(name.front() + 'a' - 'A'), this->ld, cols, name));
    write_guards();
  }

  const std::string name;
  const Index rows, cols, ld;

  T* data() const { return reinterpret_cast<T*>(start() + guard_bytes_); }

  void poison() { backend_.fill(data(), poison_byte, bytes()); }

  /// Writes the entries that `rows_from` gives.
  void write_entries() {
    for_each_slab([&](Index row0, Index count) {
      const std::vector<T> slab = entries_of(row0, count);
      backend_.upload(data() + row0 * ld, slab.data(), slab.size() * sizeof(T));
      return true;
    });
  }

  void write_guards() {
    backend_.upload(start(), guard<T>().data(), guard_bytes_);
    backend_.upload(start() + guard_bytes_ + bytes(), guard<T>().data(), guard_bytes_);
  }

  /// Calls body(row0, count) for consecutive groups of rows until it returns false.
  template <typename Body>
  void for_each_slab(Body body) const {
    const Index step = std::max<Index>(1, slab_bytes / (sizeof(double) * std::max<Index>(ld, 1)));
    for (Index row0 = 0; row0 < rows; row0 += step)
      if (!body(row0, std::min(step, rows - row0))) return;
  }

  /// The entries of some rows as they were written, NaN in the gap between cols and ld.
  std::vector<T> entries_of(Index row0, Index count) const {
    std::vector<T> slab(count * ld);
    const auto entry = [&](float x) {
      return Format<T>::from(entries_ == Element::bf16 ? to_float(to_bfloat16(x)) : x);
    };
#pragma omp parallel for schedule(static) if (count * ld > worth_threads)
    for (Index r = 0; r < count; ++r) {
      T* row = slab.data() + r * ld;
      const std::uint64_t key = scramble(draw_ + row0 + r);
      for (Index c = 0; c < cols; c += 2) {
        const Pair pair = gemm::entries(init_, radius_, scramble(key + c * 0x9E3779B97F4A7C15));
        row[c] = entry(pair.first);
        if (c + 1 < cols) row[c + 1] = entry(pair.second);
      }
      std::fill(row + cols, row + ld, Format<T>::from(gap_value));
    }
    return slab;
  }

  std::vector<T> fetch(Index row0, Index count) const {
    std::vector<T> slab(count * ld);
    backend_.download(slab.data(), data() + row0 * ld, slab.size() * sizeof(T));
    return slab;
  }

  /// What has been written around the matrix: one line, empty for nothing.
  std::string damage_around() const {
    std::vector<T> found(guard_bytes_ / sizeof(T));
    for (const bool after : {false, true}) {
      backend_.download(found.data(), after ? start() + guard_bytes_ + bytes() : start(),
                        guard_bytes_);
      const auto wrong =
          std::mismatch(found.begin(), found.end(), guard<T>().begin(), same_bits<T>).first;
      if (wrong != found.end())
        return fmt::format("wrote outside {}, from {} {} {}", name, Format<T>::name,
                           after ? wrong - found.begin() + 1 : found.end() - wrong,
                           after ? "after its end" : "before its start");
    }
    return {};
  }

  /// What has been written into a matrix that is only to be read: one line, empty for nothing.
  std::string damage_inside() const {
    std::string damage;
    for_each_slab([&](Index row0, Index count) {
      const std::vector<T> found = fetch(row0, count), written = entries_of(row0, count);
      const std::size_t bytes = found.size() * sizeof(T);
      if (bytes == 0 || std::memcmp(found.data(), written.data(), bytes) == 0) return true;
      Index at = 0;
      while (same_bits(found[at], written[at])) ++at;
      damage = fmt::format("wrote into {}, at [{},{}]", name, row0 + at / ld, at % ld);
      return false;
    });
    return damage;
  }

 private:
  std::size_t bytes() const { return rows * ld * sizeof(T); }
  char* start() const { return static_cast<char*>(buffer_.get()); }

  Backend& backend_;
  const Init init_;
  const std::uint64_t draw_;
  const int radius_;
  const Element entries_;
  const std::size_t guard_bytes_;
  Buffer buffer_;
};

// The largest r up to 3 for which |alpha| r r K + |beta| r stays below 2^24, or 0.
int integer_radius(int K, const BlasTerms& terms) {
  int r = 3;
  while (r > 0 && std::fabs(terms.alpha) * r * r * K + std::fabs(terms.beta) * r >= exact_limit)
    --r;
  return r;
}

bool is_integer(float x) { return x == std::trunc(x); }

}  // namespace

std::string name_of(Init init) {
  switch (init) {
    case Init::integers:
      return "int";
    case Init::uniform:
      return "uniform";
    case Init::positive:
      return "positive";
    case Init::wide:
      return "wide";
    case Init::normal:
      return "normal";
    case Init::zeros:
      return "zeros";
  }
  return {};
}

bool integers_stay_exact(int K, const BlasTerms& terms) { return integer_radius(K, terms) > 0; }

struct Operands::Parts {
  Parts(Backend& backend, Shape s, Init init, const BlasTerms& terms, int seed)
      : init(init),
        radius(integer_radius(s.K, terms)),
        A(backend, "A", s.M, s.K, terms.lda, init, seed, radius, terms.operands),
        B(backend, "B", s.K, s.N, terms.ldb, init, seed, radius, terms.operands),
        C(backend, "C", s.M, s.N, terms.ldc, init, seed, radius, Element::fp32),
        problem{.shape = s,
                .A = A.data(),
                .B = B.data(),
                .C = C.data(),
                .lda = A.ld,
                .ldb = B.ld,
                .ldc = C.ld,
                .alpha = terms.alpha,
                .beta = terms.beta} {
    if (terms.operands == Element::bf16) {
      A16.emplace(backend, "A16", s.M, s.K, terms.lda, init, seed, radius, terms.operands);
      B16.emplace(backend, "B16", s.K, s.N, terms.ldb, init, seed, radius, terms.operands);
      problem.A16 = A16->data();
      problem.B16 = B16->data();
    }
    if (init == Init::integers && radius == 0)
      throw Refusal(
          Exit::unsupported,
          fmt::format("integers do not stay exact in fp32 at K = {}: use --init uniform", s.K));
    if (init == Init::positive && s.K > longest_positive)
      throw Refusal(
          Exit::unsupported,
          fmt::format("sums of positive numbers drift in fp32 at K = {}: use --init uniform", s.K));
    write_inputs();
  }

  template <typename Body>
  void for_each_input(Body body) {
    body(A);
    body(B);
    if (A16) body(*A16);
    if (B16) body(*B16);
  }

  void write_inputs() {
    for_each_input([](auto& matrix) { matrix.write_entries(); });
  }

  bool exact() const {
    return init == Init::zeros ||
           (init == Init::integers && is_integer(problem.alpha) && is_integer(problem.beta));
  }

  // What the run wrote where it must not; everything is put back for the next run.
  std::string damage() {
    std::string found = C.damage_around();
    for_each_input([&](const auto& matrix) {
      if (found.empty()) found = matrix.damage_around();
      if (found.empty()) found = matrix.damage_inside();
    });
    if (!found.empty()) {
      C.write_guards();
      for_each_input([](auto& matrix) { matrix.write_guards(); });
      write_inputs();
    }
    return found;
  }

  const Init init;
  const int radius;
  Matrix<float> A, B, C;
  std::optional<Matrix<bfloat16>> A16, B16;
  Problem problem;
};

Operands::Operands(Backend& backend, Shape shape, Init init, BlasTerms terms, int seed)
    : parts_(std::make_unique<Parts>(backend, shape, init, terms, seed)) {
  poison();
}

Operands::~Operands() = default;

const Problem& Operands::problem() const { return parts_->problem; }

void Operands::poison() {
  if (parts_->problem.beta == 0)
    parts_->C.poison();
  else
    parts_->C.write_entries();
}

namespace {

// The fp64 answer, kept whole where it fits, else made again for each slab.
class Reference {
 public:
  Reference(Backend& backend, const Problem& problem, bool with_magnitude)
      : backend_(backend), problem_(problem), with_magnitude_(with_magnitude) {
    const auto [M, N, K] = problem.shape;
    whole_ =
        Index{M} * N * Index(sizeof(double)) * (with_magnitude ? 2 : 1) < cached_reference_bytes;
  }

  struct Rows {
    const double *product, *magnitude;
  };

  Rows rows(Index row0, Index count) {
    const Index N = problem_.shape.N;
    if (!whole_) {
      compute(row0, count);
      return {product_.data(), magnitude_.data()};
    }
    if (product_.empty()) compute(0, problem_.shape.M);
    return {product_.data() + row0 * N, magnitude_.data() + (with_magnitude_ ? row0 * N : 0)};
  }

 private:
  void compute(Index row0, Index count) {
    product_.resize(count * problem_.shape.N);
    if (with_magnitude_) magnitude_.resize(product_.size());
    backend_.reference(problem_, row0, count, product_.data(),
                       with_magnitude_ ? magnitude_.data() : nullptr);
  }

  Backend& backend_;
  const Problem& problem_;
  const bool with_magnitude_;
  bool whole_;
  std::vector<double> product_, magnitude_;
};

// What the comparison of a whole matrix comes to.
struct Comparison {
  Index wrong = 0, judged = 0;
  double worst = 0, squares = 0;
  std::string first;  // describes the first wrong element

  Errors errors() const { return {worst, judged > 0 ? std::sqrt(squares / judged) : 0}; }
};

// How one element is to be judged.
struct Expected {
  double value, bound;
  bool met_by(float c) const { return std::fabs(c - value) <= bound; }  // false for NaN
};

}  // namespace

struct Verifier::Parts {
  Parts(Backend& backend, Operands& operands)
      : backend(backend),
        operands(operands),
        reference(backend, operands.problem(), !operands.parts_->exact()) {}

  Backend& backend;
  Operands& operands;
  Reference reference;

  void compare(Index row0, Index count, Comparison& result);
};

Verifier::Verifier(Backend& backend, Operands& operands)
    : parts_(std::make_unique<Parts>(backend, operands)) {}

Verifier::~Verifier() = default;

void Verifier::Parts::compare(Index row0, Index count, Comparison& result) {
  const Problem& p = operands.problem();
  const Matrix<float>& C = operands.parts_->C;
  const bool exact = operands.parts_->exact();
  const double alpha = p.alpha, beta = p.beta, tolerance = 2 * std::sqrt(p.shape.K) + 4;

  const std::vector<float> found = C.fetch(row0, count);
  const std::vector<float> before =
      beta != 0 ? C.entries_of(row0, count) : std::vector<float>(found.size(), poison_value);
  const Reference::Rows answer = reference.rows(row0, count);

  // The error that a bound of 1 stands for: u * (|alpha||A||B| + |beta||C|).
  const auto unit = [&](Index r, Index c) {
    const double old = beta != 0 ? std::fabs(beta * before[r * C.ld + c]) : 0;
    return exact ? 0 : unit_roundoff * (std::fabs(alpha) * answer.magnitude[r * C.cols + c] + old);
  };
  const auto expected = [&](Index r, Index c) {
    const double old = beta != 0 ? beta * before[r * C.ld + c] : 0;
    return Expected{alpha * answer.product[r * C.cols + c] + old, tolerance * unit(r, c)};
  };
  const auto untouched = [&](Index at) { return same_bits(found[at], before[at]); };

  Index wrong = 0, first = std::numeric_limits<Index>::max();
  Index judged = 0;
  double worst = 0, squares = 0;
#pragma omp parallel for schedule(static) if (count * C.ld > worth_threads) \
    reduction(+ : wrong, judged, squares) reduction(min : first) reduction(max : worst)
  for (Index r = 0; r < count; ++r)
    for (Index c = 0; c < C.ld; ++c) {
      const Index at = r * C.ld + c;
      const bool inside = c < C.cols;
      if (inside && !exact && unit(r, c) > 0) {
        const double error = std::fabs(found[at] - expected(r, c).value) / unit(r, c);
        worst = std::max(worst, error);
        squares += error * error;
        ++judged;
      }
      if (inside ? expected(r, c).met_by(found[at]) : untouched(at)) continue;
      ++wrong;
      first = std::min(first, at);
    }

  if (wrong > 0 && result.wrong == 0) {
    const Index r = first / C.ld, c = first % C.ld;
    if (c >= C.cols) {
      result.first = fmt::format("wrote into the gap after row {} of C, at column {}", row0 + r, c);
    } else {
      const auto [value, bound] = expected(r, c);
      const std::string want =
          exact ? fmt::format("{}", value) : fmt::format("{:.9g} +- {:.1g}", value, bound);
      const std::string got = beta == 0 && untouched(first) ? "the NaN that C was filled with"
                                                            : fmt::format("{:.9g}", found[first]);
      result.first = fmt::format("C[{},{}] is {}, expected {}", row0 + r, c, got, want);
    }
  }
  result.wrong += wrong;
  result.judged += judged;
  result.worst = std::max(result.worst, worst);
  result.squares += squares;
}

Verdict Verifier::check(const Run& run) {
  Operands& operands = parts_->operands;
  operands.poison();
  parts_->backend.finish(run);

  // Inputs first: the reference is made from them.
  if (std::string damage = operands.parts_->damage(); !damage.empty())
    return {.failure = std::move(damage)};

  Comparison result;
  const Matrix<float>& C = operands.parts_->C;
  C.for_each_slab([&](Index row0, Index count) {
    parts_->compare(row0, count, result);
    return true;
  });
  if (result.wrong > 0)
    return {.failure = fmt::format("{} ({} of {} floats wrong)", result.first, result.wrong,
                                   C.rows * C.ld)};
  if (operands.parts_->exact()) return {.failure = {}, .exact = true};
  return {.failure = {}, .errors = result.errors()};
}

}  // namespace gemm
