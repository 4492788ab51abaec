#include "common/simt/transactions.hpp"

#include <algorithm>
#include <bit>

namespace gemm::simt {
namespace {

// The distinct values seen so far, at most 32, in 32 buckets.
class Distinct {
 public:
  void add(std::uint64_t value, unsigned bucket) {
    for (std::uint32_t rest = kept_[bucket]; rest; rest &= rest - 1)
      if (values_[std::countr_zero(rest)] == value) return;
    kept_[bucket] |= std::uint32_t{1} << count_;
    values_[count_++] = value;
  }

  int count() const { return count_; }

  int fullest() const {
    int most = 0;
    for (const std::uint32_t kept : kept_) most = std::max(most, std::popcount(kept));
    return most;
  }

 private:
  std::uint32_t kept_[32] = {};
  std::uint64_t values_[32];
  int count_ = 0;
};

// True when every active lane reads what its partner reads.
bool partners_agree(const Request& request, unsigned distance) {
  for (std::uint32_t rest = request.lanes; rest; rest &= rest - 1) {
    const unsigned lane = std::countr_zero(rest), partner = lane ^ distance;
    if (request.lanes >> partner & 1 && request.address[lane] != request.address[partner])
      return false;
  }
  return true;
}

// Lanes that are served together.
int lanes_together(const Request& request, int bytes, bool write) {
  if (bytes <= 4) return 32;
  const int group = bytes == 8 ? 16 : 8;
  if (write) return group;
  const bool one = partners_agree(request, 1), two = partners_agree(request, 2);
  return std::min(32, group * (one && two ? 4 : one || two ? 2 : 1));
}

}  // namespace

int sectors(const Request& request) {
  Distinct seen;
  std::uint64_t previous = ~std::uint64_t{0};
  for (std::uint32_t rest = request.lanes; rest; rest &= rest - 1) {
    const std::uint64_t sector = request.address[std::countr_zero(rest)] / 32;
    // Multiplying spreads sectors that are a power of two apart over the buckets.
    if (sector != previous) seen.add(sector, std::uint32_t(sector * 0x9E3779B1u) >> 27);
    previous = sector;
  }
  return seen.count();
}

int wavefronts(const Request& request, int bytes, bool write) {
  const int together = lanes_together(request, bytes, write);
  const int words = (bytes + 3) / 4;
  int total = 0;
  for (int lane0 = 0; lane0 < 32; lane0 += together) {
    Distinct seen;
    std::uint64_t previous = ~std::uint64_t{0};
    for (int lane = lane0; lane < lane0 + together; ++lane) {
      if (!(request.lanes >> lane & 1) || request.address[lane] == previous) continue;
      previous = request.address[lane];
      for (int w = 0; w < words; ++w) seen.add(previous / 4 + w, (previous / 4 + w) % 32);
    }
    total += seen.fullest();
  }
  return total;
}

}  // namespace gemm::simt
