#include "common/model/cache_simulator.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace gemm {
namespace {

bool is_power_of_two(std::int64_t n) {
  return n > 0 && std::has_single_bit(static_cast<std::uint64_t>(n));
}

}  // namespace

CacheSimulator::CacheSimulator(const std::vector<Cache>& caches) {
  // No line has this number: it would lie at the very end of the address space.
  constexpr std::uint64_t none = ~std::uint64_t{0};
  for (const Cache& cache : caches) {
    if (cache.line_bytes != caches.front().line_bytes || !is_power_of_two(cache.line_bytes))
      throw std::invalid_argument("cache lines must be equally long and a power of two");
    const std::int64_t count = cache.bytes / cache.line_bytes;
    const std::int64_t ways = cache.ways == 0 ? count : cache.ways;
    if (ways <= 0 || count % ways != 0 || !is_power_of_two(count / ways))
      throw std::invalid_argument("a cache must have a power of two of sets");
    levels_.push_back({.lines = std::vector<std::uint64_t>(count, none),
                       .set_mask = static_cast<std::uint64_t>(count / ways - 1),
                       .ways = static_cast<std::size_t>(ways)});
  }
  if (!caches.empty()) line_shift_ = std::countr_zero<unsigned>(caches.front().line_bytes);
}

bool CacheSimulator::Level::touch_deeper(std::uint64_t* set, std::uint64_t line) {
  std::uint64_t* const end = set + ways;
  std::uint64_t* const found = std::find(set + 1, end, line);
  const bool hit = found != end;
  if (!hit) ++misses;
  std::move_backward(set, hit ? found : end - 1, hit ? found + 1 : end);
  set[0] = line;
  return hit;
}

}  // namespace gemm
