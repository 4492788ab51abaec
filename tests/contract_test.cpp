// Kernels that keep the whole BLAS contract, on every device: alpha, beta and leading dimensions,
// NaN and infinity, what may not be touched, repetition, and many callers at once.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <thread>

#include "common/bfloat16.hpp"
#include "common/verify.hpp"
#include "tests/kernel_test.hpp"

namespace gemm {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();
// Between the rows: a NaN that no arithmetic makes.
constexpr float gap = std::bit_cast<float>(0x7FE70000u);

constexpr float alphas[] = {1, 0, -2, 0.5f}, betas[] = {0, 1, -1, 0.5f};
constexpr int pads[] = {0, 1, 7, 16};

// ------------------------------------------------------------------- operands that tests can alter

// Row-major, and over with the last element of the last row.
struct Matrix {
  int rows, cols;
  std::int64_t ld;
  std::vector<float> floats{};

  Matrix(int rows, int cols, int pad)
      : rows(rows),
        cols(cols),
        ld(cols + pad),
        floats(rows > 0 && cols > 0 ? (rows - 1) * ld + cols : 0) {}

  bool in_gap(std::size_t at) const { return static_cast<std::int64_t>(at) % ld >= cols; }
  float& at(int row, int col) { return floats[row * ld + col]; }

  std::vector<bfloat16> in_bfloat16() const {
    std::vector<bfloat16> rounded(floats.size());
    std::transform(floats.begin(), floats.end(), rounded.begin(), to_bfloat16);
    return rounded;
  }

  template <typename Next>
  void fill(Next next) {
    for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = in_gap(i) ? gap : next();
  }
};

struct Call {
  Shape shape;
  int pad = 0;
  float alpha = 1, beta = 0;
  int threads = 1;
};

std::string text(const Call& c) {
  return fmt::format("{}, ld + {}, alpha {}, beta {}, {} threads", text(c.shape), c.pad, c.alpha,
                     c.beta, c.threads);
}

// A call and its operands: small integers, so that sums are exact in any order.
struct Operation : Call {
  Matrix A, B, C;

  explicit Operation(const Call& call)
      : Call(call), A(shape.M, shape.K, pad), B(shape.K, shape.N, pad), C(shape.M, shape.N, pad) {
    std::minstd_rand random(shape.M + 31 * shape.N + 997 * shape.K);
    const auto integer = [&] { return static_cast<float>(static_cast<int>(random() % 7) - 3); };
    for (Matrix* matrix : {&A, &B, &C}) matrix->fill(integer);
  }

  Problem problem(const float* a, const float* b, float* c, const bfloat16* a16,
                  const bfloat16* b16) const {
    return {.shape = shape,
            .A = a,
            .B = b,
            .C = c,
            .lda = A.ld,
            .ldb = B.ld,
            .ldc = C.ld,
            .alpha = alpha,
            .beta = beta,
            .threads = threads,
            .A16 = a16,
            .B16 = b16};
  }

  /// C as the reference BLAS leaves it: alpha == 0 reads neither A nor B, beta == 0 reads no C.
  Matrix expected() {
    Matrix result = C;
    for (int i = 0; i < shape.M; ++i) {
      std::vector<double> sums(shape.N);
      for (int k = 0; k < shape.K && alpha != 0; ++k)
        for (int j = 0; j < shape.N; ++j) sums[j] += static_cast<double>(A.at(i, k)) * B.at(k, j);
      for (int j = 0; j < shape.N; ++j) {
        const double product = alpha == 0 ? 0 : alpha * sums[j];
        result.at(i, j) = static_cast<float>(beta == 0 ? product : product + beta * C.at(i, j));
      }
    }
    return result;
  }
};

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// Equal values, any NaN for a NaN, and between the rows not a bit changed.
void expect_equal(const Matrix& expected, std::span<const float> found) {
  ASSERT_EQ(expected.floats.size(), found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const float want = expected.floats[i], got = found[i];
    const bool right = expected.in_gap(i) ? same_bits(want, got)
                                          : want == got || (std::isnan(want) && std::isnan(got));
    ASSERT_TRUE(right) << "C[" << i / expected.ld << "," << i % expected.ld << "] is " << got
                       << ", expected " << want;
  }
}

// ---------------------------------------------------------------------------------------- fixture

class ContractTest : public KernelTest {
 protected:
  using KernelTest::KernelTest;

  bool worth_trying(Shape shape) const { return supports(shape) && !takes_too_long(shape); }

  // Operands in BF16, for a step that wants them; nothing for others.
  std::vector<bfloat16> rounded(const Matrix& matrix) const {
    return step_.operands == Element::bf16 ? matrix.in_bfloat16() : std::vector<bfloat16>{};
  }

  /// C after one run, from operands that lie `offset` entries behind an aligned address each.
  std::vector<float> result_of(const Operation& o, int offset = 0) {
    const auto put = [&]<typename T>(const std::vector<T>& entries, const char* name) {
      Buffer buffer(*backend_, (entries.size() + offset) * sizeof(T), name);
      backend_->upload(static_cast<T*>(buffer.get()) + offset, entries.data(),
                       entries.size() * sizeof(T));
      return buffer;
    };
    const auto floats = [&](const Buffer& buffer) {
      return static_cast<float*>(buffer.get()) + offset;
    };
    const auto halves = [&](const Buffer& buffer) {
      return static_cast<bfloat16*>(buffer.get()) + offset;
    };
    const Buffer A = put(o.A.floats, "A"), B = put(o.B.floats, "B"), C = put(o.C.floats, "C"),
                 A16 = put(rounded(o.A), "A in BF16"), B16 = put(rounded(o.B), "B in BF16");
    backend_->finish(
        kernel_.prepare(o.problem(floats(A), floats(B), floats(C), halves(A16), halves(B16))));
    std::vector<float> found(o.C.floats.size());
    backend_->download(found.data(), floats(C), found.size() * sizeof(float));
    return found;
  }

  void expect_right(Operation& o, int offset = 0) {
    SCOPED_TRACE(text(o));
    if (supports(o.shape)) expect_equal(o.expected(), result_of(o, offset));
  }

  /// With everything around the operands watched as well, on the device itself.
  void expect_verified(const Call& call) {
    SCOPED_TRACE(text(call));
    if (!worth_trying(call.shape)) return;
    const auto [M, N, K] = call.shape;
    Operands operands(*backend_, call.shape, Init::integers,
                      {.lda = K + call.pad,
                       .ldb = N + call.pad,
                       .ldc = N + call.pad,
                       .alpha = call.alpha,
                       .beta = call.beta,
                       .operands = step_.operands});
    Problem problem = operands.problem();
    problem.threads = call.threads;
    const Verdict verdict = Verifier(*backend_, operands).check(kernel_.prepare(problem));
    EXPECT_EQ(verdict.failure, "");
  }

  /// One more than a tile in every direction.
  Shape ragged() const {
    const Tile& tile = kernel_.tile;
    return {std::max(tile.BM, tile.TM) + 1, std::max(tile.BN, tile.TN) + 1, tile.BK + 1};
  }
};

// --------------------------------------------------------- alpha, beta, leading dimensions, shapes

class TermsTest : public ContractTest {
  using ContractTest::ContractTest;

  void TestBody() override {
    for (Shape shape : {Shape{1, 1, 1}, Shape{1, 29, 11}, Shape{13, 1, 9}, Shape{17, 31, 1},
                        Shape{7, 5, 0}, Shape{37, 41, 43}})
      for (const float alpha : alphas)
        for (const float beta : betas)
          for (const int pad : pads)
            expect_verified({.shape = shape, .pad = pad, .alpha = alpha, .beta = beta});
  }
};

class ShapesTest : public ContractTest {
  using ContractTest::ContractTest;

  void TestBody() override {
    const Tile& tile = kernel_.tile;
    std::vector<Shape> shapes = {{0, 0, 0},   {0, 5, 3},   {5, 0, 3}, {400, 3, 2},
                                 {2, 400, 3}, {3, 2, 400}, ragged()};
    for (const int m : edges(tile.BM)) shapes.push_back({m, 7, 5});
    for (const int n : edges(tile.BN)) shapes.push_back({5, n, 7});
    for (const int k : edges(tile.BK)) shapes.push_back({7, 5, k});
    for (const int m : edges(tile.TM))
      for (const int n : edges(tile.TN)) shapes.push_back({m, n, 11});
    // Every term and padding meets every kind of edge: 3 and 5 are prime to the 4 of each of them.
    for (std::size_t i = 0; i < shapes.size(); ++i)
      expect_verified({.shape = shapes[i],
                       .pad = pads[i % 4],
                       .alpha = alphas[i / 3 % 4],
                       .beta = betas[i / 5 % 4]});
  }
};

// ------------------------------------------------------------------------------- NaN and infinity

class SpecialValuesTest : public ContractTest {
  using ContractTest::ContractTest;

  // Corners of a matrix and its middle, a value each.
  void plant(Matrix& matrix, int place, float value) {
    const int row[] = {0, matrix.rows - 1, matrix.rows / 2, 0};
    const int col[] = {0, matrix.cols - 1, matrix.cols / 2, matrix.cols - 1};
    matrix.at(row[place], col[place]) = value;
  }

  void TestBody() override {
    for (Shape shape : {Shape{1, 1, 1}, Shape{9, 13, 7}, Shape{33, 37, 41}, ragged()}) {
      if (!worth_trying(shape)) continue;
      for (const float value : {nan, infinity, -infinity})
        for (int place = 0; place < 4; ++place) {
          for (Matrix Operation::*planted : {&Operation::A, &Operation::B}) {
            Operation o({.shape = shape, .pad = 3, .alpha = -2, .beta = 0.5f});
            plant(o.*planted, place, value);
            expect_right(o);
          }
          // Both: 0 * infinity in one element, infinity - infinity in another.
          Operation o({.shape = shape, .pad = 3, .beta = 1});
          plant(o.A, place, value);
          plant(o.B, 3 - place, -infinity);
          expect_right(o);
        }
      nothing_comes_from_what_is_not_read(shape);
    }
  }

  void nothing_comes_from_what_is_not_read(Shape shape) {
    const auto always_nan = [] { return nan; };
    for (const float beta : betas) {
      Operation o({.shape = shape, .pad = 3, .alpha = 0, .beta = beta});
      o.A.fill(always_nan);
      o.B.fill(always_nan);
      expect_right(o);
    }
    for (const float alpha : alphas) {
      Operation o({.shape = shape, .pad = 3, .alpha = alpha, .beta = 0});
      o.C.fill(always_nan);
      expect_right(o);
    }
    Operation o({.shape = {shape.M, shape.N, 0}, .pad = 3});
    o.C.fill(always_nan);
    expect_right(o);
  }
};

// --------------------------------------------------------------------- addresses of any alignment

class AlignmentTest : public ContractTest {
  using ContractTest::ContractTest;

  void TestBody() override {
    for (Shape shape : {Shape{1, 1, 1}, Shape{16, 32, 16}, Shape{64, 96, 64}, ragged()})
      for (const int offset : {1, 2, 3, 5})
        for (const int pad : pads) {
          Operation o({.shape = shape, .pad = pad, .alpha = -2, .beta = 1});
          if (worth_trying(shape)) expect_right(o, offset);
        }
  }
};

// -------------------------------------------------------------- the same answer again, to the bit

class RepetitionTest : public ContractTest {
  using ContractTest::ContractTest;

  void expect_repeatable(const Call& call) {
    SCOPED_TRACE(text(call));
    if (!worth_trying(call.shape)) return;
    Operation o(call);
    std::minstd_rand random(1);
    std::normal_distribution<float> normal;
    for (Matrix* matrix : {&o.A, &o.B, &o.C}) matrix->fill([&] { return normal(random); });
    const std::vector<float> first = result_of(o);
    const int repetitions = step_.device == Device::gpu ? 100 : 20;
    for (int i = 1; i < repetitions; ++i) {
      const std::vector<float> again = result_of(o);
      ASSERT_TRUE(std::equal(first.begin(), first.end(), again.begin(), same_bits))
          << "repetition " << i << " differs";
    }
  }

  void TestBody() override {
    for (const int threads : {1, 3}) {
      if (threads > 1 && step_.device != Device::cpu) break;
      for (Shape shape : {Shape{37, 41, 43}, Shape{5, 7, 1500}, Shape{130, 210, 300}, ragged()})
        expect_repeatable({.shape = shape, .beta = 0.5f, .threads = threads});
    }
    // Enough tiles for a GPU to cut some of them.
    if (step_.device == Device::gpu)
      for (Shape shape : {Shape{1023, 1025, 1027}, Shape{2100, 1300, 300}})
        expect_repeatable({.shape = shape, .beta = 0.5f});
  }
};

// ------------------------------------------------------------------------------------- CPU threads

class ThreadsTest : public ContractTest {
  using ContractTest::ContractTest;

  void TestBody() override {
    for (Shape shape : {Shape{0, 3, 3}, Shape{1, 1, 1}, Shape{2, 300, 40}, Shape{300, 2, 40},
                        Shape{4, 4, 0}, Shape{67, 129, 257}, ragged()})
      for (const int threads : {1, 2, 3, 5})
        for (const float beta : betas)
          expect_verified(
              {.shape = shape, .pad = 7, .alpha = -2, .beta = beta, .threads = threads});
  }
};

// Callers share nothing but the kernel: each has a problem and a Run of its own.
class CallersTest : public ContractTest {
  using ContractTest::ContractTest;

  void TestBody() override {
    constexpr int callers = 5, calls = 20;
    std::vector<Operation> operations;
    for (int i = 0; i < callers; ++i)
      operations.emplace_back(Call{.shape = {40 + 17 * i, 150 - 23 * i, 60 + 31 * i},
                                   .pad = i,
                                   .alpha = alphas[i % 4],
                                   .beta = betas[(i + 1) % 4],
                                   .threads = 1 + i % 3});
    std::vector<std::vector<float>> found(callers * calls);
    std::barrier together(callers);
    std::vector<std::jthread> threads;
    for (int i = 0; i < callers; ++i)
      threads.emplace_back([&, i] {
        const Operation& o = operations[i];
        const std::vector<bfloat16> A16 = rounded(o.A), B16 = rounded(o.B);
        for (int call = 0; call < calls; ++call) {
          std::vector<float> C = o.C.floats;
          const Problem problem =
              o.problem(o.A.floats.data(), o.B.floats.data(), C.data(), A16.data(), B16.data());
          together.arrive_and_wait();
          kernel_.prepare(problem).start(nullptr);
          found[i * calls + call] = std::move(C);
        }
      });
    threads.clear();
    for (int i = 0; i < callers; ++i) {
      SCOPED_TRACE(text(operations[i]));
      const Matrix expected = operations[i].expected();
      for (int call = 0; call < calls; ++call) expect_equal(expected, found[i * calls + call]);
    }
  }
};

// ------------------------------------------------------------------------------------ guard pages

enum class Fence { before, after };

// Memory of its own for an operand, right behind or right before a page that nobody may touch.
template <typename T>
class Fenced {
 public:
  Fenced(const std::vector<T>& entries, Fence fence) {
    const std::size_t page = sysconf(_SC_PAGESIZE), bytes = entries.size() * sizeof(T);
    const std::size_t inner = (bytes + page - 1) / page * page;
    bytes_ = inner + 2 * page;
    memory_ =
        static_cast<char*>(mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory_ == MAP_FAILED || mprotect(memory_ + page, inner, PROT_READ | PROT_WRITE) != 0)
      throw std::bad_alloc();
    begin_ = memory_ + page + (fence == Fence::after ? inner - bytes : 0);
    std::copy(entries.begin(), entries.end(), data());
  }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  ~Fenced() { munmap(memory_, bytes_); }

  T* data() const { return reinterpret_cast<T*>(begin_); }
  void forbid() { mprotect(memory_, bytes_, PROT_NONE); }

 private:
  char *memory_, *begin_;
  std::size_t bytes_;
};

// A read or write outside an operand ends this process, and so the test.
class GuardPagesTest : public ContractTest {
  using ContractTest::ContractTest;

  void expect_inside(const Call& call, Fence fence) {
    SCOPED_TRACE(text(call));
    if (!supports(call.shape)) return;
    Operation o(call);
    Fenced A(o.A.floats, fence), B(o.B.floats, fence), C(o.C.floats, fence);
    Fenced A16(rounded(o.A), fence), B16(rounded(o.B), fence);
    if (o.alpha == 0 || step_.operands == Element::bf16)
      for (auto* unread : {&A, &B}) unread->forbid();
    if (o.alpha == 0)
      for (auto* unread : {&A16, &B16}) unread->forbid();
    kernel_.prepare(o.problem(A.data(), B.data(), C.data(), A16.data(), B16.data())).start(nullptr);
    expect_equal(o.expected(), {C.data(), o.C.floats.size()});
  }

  void TestBody() override {
    std::vector<Shape> shapes = {{1, 1, 1},   {5, 7, 3}, {17, 33, 65}, {13, 1, 9},   {1, 29, 11},
                                 {23, 19, 0}, {0, 5, 3}, {5, 0, 3},    {64, 64, 64}, ragged()};
    for (int n = 1; n <= 40; ++n) shapes.push_back({41 - n, n, n % 8 + 1});
    for (const auto fence : {Fence::before, Fence::after})
      for (Shape shape : shapes)
        for (const int pad : pads)
          for (const int threads : {1, 3})
            for (const float alpha : {-2.0f, 0.0f})
              for (const float beta : {0.0f, 0.5f})
                expect_inside(
                    {.shape = shape, .pad = pad, .alpha = alpha, .beta = beta, .threads = threads},
                    fence);
  }
};

void register_cases(const Step& step, const Kernel& kernel) {
  register_case<TermsTest>(step, kernel, "terms", "");
  register_case<ShapesTest>(step, kernel, "shapes", "");
  register_case<SpecialValuesTest>(step, kernel, "special_values", "");
  register_case<AlignmentTest>(step, kernel, "alignment", "");
  register_case<RepetitionTest>(step, kernel, "repetition", "");
  if (step.device != Device::cpu) return;
  register_case<ThreadsTest>(step, kernel, "threads", "");
  register_case<CallersTest>(step, kernel, "callers", "");
  register_case<GuardPagesTest>(step, kernel, "guard_pages", "");
}

}  // namespace
}  // namespace gemm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (const gemm::Step& step : gemm::steps())
    for (const gemm::Kernel& kernel : step.kernels)
      if (step.whole_contract) gemm::register_cases(step, kernel);
  return RUN_ALL_TESTS();
}
