#include "common/simt/warp_log.hpp"

#include <algorithm>
#include <bit>

namespace gemm::simt {
namespace {

int cost_of(std::uint32_t instruction, const Request& request) {
  const bool write = instruction & 1, shared = instruction >> 1 & 1;
  return shared ? wavefronts(request, 1 << (instruction >> 2 & 7), write) : sectors(request);
}

void count(SiteTable& sites, std::uint32_t instruction, int lanes, int cost) {
  SiteTable::Row& row = sites.at(instruction);
  ++row.requests;
  row.lanes += lanes;
  row.transactions += cost;
}

}  // namespace

SiteTable::Row& SiteTable::insert(std::uint32_t instruction) {
  if (++used_ * 2 > rows_.size()) {
    std::vector<Row> old(rows_.size() * 2);
    old.swap(rows_);
    --shift_;
    used_ = 1;
    for (const Row& row : old)
      if (row.instruction != empty) at(row.instruction) = row;
  }
  std::uint32_t i = instruction * 0x9E3779B1u >> shift_;
  while (rows_[i].instruction != empty) i = (i + 1) % rows_.size();
  rows_[i].instruction = instruction;
  return rows_[i];
}

// Transactions of a request of all 32 lanes. Addresses a constant stride apart cost the same
// wherever they start in a sector, so their cost is worked out once.
int WarpLog::cost_in_step(const std::array<const Entry*, lanes>& next, std::ptrdiff_t at,
                          Entry stride) {
  const Entry first = next[0][at];
  const std::uint64_t key =
      (stride << 10 | address_of(first) % 32 << 5 | (instruction_of(first) & 31));
  Known& known = known_[(key * 0x9E3779B97F4A7C15u) >> 56];
  if (known.key != key) {
    Request request{~std::uint32_t{0}, {}};
    for (int lane = 0; lane < lanes; ++lane) request.address[lane] = address_of(next[lane][at]);
    known = {key, cost_of(instruction_of(first), request)};
  }
  return known.cost;
}

// Counts the next `count` requests when all lanes make them together.
template <int count>
bool WarpLog::count_in_step(const std::array<const Entry*, lanes>& next, std::ptrdiff_t at,
                            SiteTable& sites) {
  Entry first[count], stride[count], expected[count], off_stride[count], differs[count];
  for (int i = 0; i < count; ++i) {
    first[i] = next[0][at + i];
    stride[i] = next[1][at + i] - first[i];
    expected[i] = first[i];
    off_stride[i] = differs[i] = 0;
  }
  for (int lane = 1; lane < lanes; ++lane) {
    const Entry* entry = next[lane] + at;
    for (int i = 0; i < count; ++i) {
      expected[i] += stride[i];
      off_stride[i] |= entry[i] ^ expected[i];
      differs[i] |= entry[i] ^ first[i];
    }
  }
  for (int i = 0; i < count; ++i)
    if (instruction_of(differs[i])) return false;
  for (int i = 0; i < count; ++i) {
    int cost;
    if (off_stride[i] == 0) {
      cost = cost_in_step(next, at + i, stride[i]);
    } else {
      Request request{~std::uint32_t{0}, {}};
      for (int lane = 0; lane < lanes; ++lane)
        request.address[lane] = address_of(next[lane][at + i]);
      cost = cost_of(instruction_of(first[i]), request);
    }
    simt::count(sites, instruction_of(first[i]), lanes, cost);
  }
  return true;
}

// Takes as many requests as all 32 lanes make together.
void WarpLog::flush_in_step(std::array<const Entry*, lanes>& next, SiteTable& sites) {
  std::ptrdiff_t together = capacity * 2, at = 0;
  for (int lane = 0; lane < lanes; ++lane) together = std::min(together, end[lane] - next[lane]);
  constexpr int block = 4;
  while (at + block <= together && count_in_step<block>(next, at, sites)) at += block;
  while (at < together && count_in_step<1>(next, at, sites)) ++at;
  for (const Entry*& entry : next) entry += at;
}

void WarpLog::flush(std::uint32_t unfinished, SiteTable& sites) {
  std::array<const Entry*, lanes> next;
  for (int lane = 0; lane < lanes; ++lane) next[lane] = begin(lane);
  const auto waits_for_more = [&](int lane) {
    return unfinished >> lane & 1 && next[lane] == end[lane];
  };

  for (;;) {
    flush_in_step(next, sites);
    std::uint32_t instruction = ~std::uint32_t{0};
    bool starved = false;
    for (int lane = 0; lane < lanes; ++lane) {
      starved |= waits_for_more(lane);
      if (next[lane] != end[lane]) instruction = std::min(instruction, instruction_of(*next[lane]));
    }
    if (starved || instruction == ~std::uint32_t{0}) break;
    Request request{0, {}};
    for (int lane = 0; lane < lanes; ++lane)
      if (next[lane] != end[lane] && instruction_of(*next[lane]) == instruction) {
        request.lanes |= std::uint32_t{1} << lane;
        request.address[lane] = address_of(*next[lane]++);
      }
    count(sites, instruction, std::popcount(request.lanes), cost_of(instruction, request));
  }

  for (int lane = 0; lane < lanes; ++lane)
    end[lane] = std::copy(next[lane], static_cast<const Entry*>(end[lane]), begin(lane));
}

}  // namespace gemm::simt
