#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <functional>
#include <numeric>
#include <system_error>
#include <thread>
#include <vector>

#include "common/error.hpp"
#include "common/machine_parts.hpp"
#include "common/simd.hpp"

namespace gemm {
namespace {

// Two FMA units of 4 to 5 clocks latency want 8 to 10 sums in flight; 16 registers hold 12 and
// the two factors.
constexpr int sums = 12;

// Rounds of the sums in one window: two tenths of a millisecond at two FMAs a clock and 3 GHz.
constexpr int fma_rounds = 100000;
constexpr double fma_window_flops = 2.0 * sums * lanes * fma_rounds;

// What the compiler cannot see through: two reads of it may differ.
const volatile float one = 1, half = 0.5f;

// Keeps the compiler from dropping a loop whose result nobody reads.
void keep(const Vector (&sum)[sums]) {
  Vector total = {};
#pragma GCC unroll 12
  for (const Vector& s : sum) total += s;
  asm volatile("" : : "m"(total));
}

void multiply_add(int rounds) {
  Vector sum[sums];
#pragma GCC unroll 12
  for (Vector& s : sum) s = Vector{} + one;
  const Vector factor = Vector{} + half, term = Vector{} + one;
  for (int i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (Vector& s : sum) s = s * factor + term;
  keep(sum);
}

void read(const Vector* data, std::int64_t count) {
  Vector sum[sums] = {};
  for (std::int64_t i = 0; i + sums <= count; i += sums)
#pragma GCC unroll 12
    for (int j = 0; j < sums; ++j) sum[j] += data[i + j];
  keep(sum);
}

// FLOP/s of the calling thread: the median of some windows, for a thread that had to wait in one
// of them was not slow.
double own_fma_rate() {
  using Clock = std::chrono::steady_clock;
  std::array<double, 7> rates{};
  for (double& rate : rates) {
    const auto start = Clock::now();
    multiply_add(fma_rounds);
    rate = fma_window_flops / std::chrono::duration<double>(Clock::now() - start).count();
  }
  const auto middle = rates.begin() + rates.size() / 2;
  std::nth_element(rates.begin(), middle, rates.end());
  return *middle;
}

// Seconds of the shortest of `windows` in which every thread did `work(thread)` once.
double best_window(int threads, int windows, const std::function<void(int)>& work) {
  using Clock = std::chrono::steady_clock;
  std::barrier together(threads);
  double best = 1e30;
  const auto run = [&](int thread) {
    for (int i = 0; i < windows; ++i) {
      together.arrive_and_wait();
      const auto start = Clock::now();
      work(thread);
      together.arrive_and_wait();
      if (thread == 0)
        best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
    }
  };
  std::vector<std::jthread> others;
  try {
    for (int thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
  } catch (const std::system_error&) {
    // Those that have started must not wait for the ones that never will, this thread included.
    for (int absent = threads - static_cast<int>(others.size()); absent > 0; --absent)
      together.arrive_and_drop();
    throw Refusal(Exit::no_memory,
                  fmt::format("no room for {} threads: use fewer --threads", threads));
  }
  run(0);
  others.clear();
  return best;
}

}  // namespace

double cpu_fma_rate(int threads) {
  constexpr int windows = 40;
  const double seconds = best_window(threads, windows, [](int) { multiply_add(fma_rounds); });
  return fma_window_flops * threads / seconds;
}

double cpu_fma_rate_now(int threads) {
  double rate = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : rate)
  for (int thread = 0; thread < threads; ++thread) rate += own_fma_rate();
  return rate;
}

double cpu_fma_rate_apart(int threads) {
  std::vector<double> rates(threads);
  best_window(threads, 1, [&](int thread) { rates[thread] = own_fma_rate(); });
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

double cpu_read_rate(std::int64_t bytes, int threads) {
  // A window reads at least this much, so that it outlasts the clock and the barrier.
  constexpr std::int64_t window_bytes = 4 << 20;
  const std::int64_t count = std::max<std::int64_t>(sums, bytes / threads / vector_bytes);
  const std::int64_t passes = std::max<std::int64_t>(1, window_bytes / (count * vector_bytes));
  const int windows = bytes > (32 << 20) ? 4 : 12;
  std::vector<std::vector<Vector>> data(threads);
  // Room is found here, where its lack can be told; a thread touches its own part first.
  for (auto& part : data) part.reserve(count);
  const double seconds = best_window(threads, windows, [&](int thread) {
    if (data[thread].empty()) data[thread].resize(count);
    for (std::int64_t pass = 0; pass < passes; ++pass) read(data[thread].data(), count);
  });
  return static_cast<double>(count * vector_bytes * passes * threads) / seconds;
}

}  // namespace gemm
