// The accesses of a warp's lanes, put together to the requests that the warp makes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/simt/emulator.hpp"
#include "common/simt/transactions.hpp"

namespace gemm::simt {

/// One access of one lane in 8 bytes: site (24 bits), log2 of the size (3), shared (1), write (1),
/// address (35). Sums of entries and addresses never carry from one field to the next.
using Entry = std::uint64_t;

constexpr int address_bits = 35;
constexpr int site_shift = 40;

template <int bytes, bool shared, bool write>
constexpr Entry entry_kind = Entry{bytes == 1   ? 0
                                   : bytes == 2 ? 1
                                   : bytes == 4 ? 2
                                   : bytes == 8 ? 3
                                                : 4}
                                 << (address_bits + 2) |
                             Entry{shared} << (address_bits + 1) | Entry{write} << address_bits;

/// What is the same for all lanes of a request: everything but the address.
constexpr std::uint32_t instruction_of(Entry entry) { return entry >> address_bits; }
constexpr std::uint64_t address_of(Entry entry) { return entry & ((Entry{1} << address_bits) - 1); }
constexpr std::uint32_t site_of(Entry entry) { return entry >> site_shift; }

/// Requests by instruction: an open-addressed hash table.
class SiteTable {
 public:
  struct Row {
    std::uint32_t instruction = empty;
    std::int64_t requests = 0, lanes = 0, transactions = 0;
  };

  Row& at(std::uint32_t instruction) {
    for (std::uint32_t i = instruction * 0x9E3779B1u >> shift_;; i = (i + 1) % rows_.size()) {
      if (rows_[i].instruction == instruction) return rows_[i];
      if (rows_[i].instruction == empty) return insert(instruction);
    }
  }

  void clear() { *this = SiteTable(); }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  static constexpr std::uint32_t empty = ~std::uint32_t{0};
  Row& insert(std::uint32_t instruction);

  int shift_ = 32 - 8;
  std::size_t used_ = 0;
  std::vector<Row> rows_ = std::vector<Row>(256);
};

class WarpLog {
 public:
  static constexpr int lanes = 32;
  static constexpr int capacity = 512;

  Entry* begin(int lane) { return entries_.data() + lane * stride; }
  Entry* limit(int lane) { return begin(lane) + capacity; }

  /// Where each lane writes its next entry.
  std::array<Entry*, lanes> end;

  WarpLog() : entries_(lanes * stride) { clear(); }
  void clear() {
    for (int lane = 0; lane < lanes; ++lane) end[lane] = begin(lane);
  }

  /// Counts and removes whole requests. Lanes run in step as long as their next instructions are
  /// the same; where they differ, the one that comes first in the program goes first. Lanes of
  /// `unfinished` have more to come, so nothing goes beyond their last entry.
  void flush(std::uint32_t unfinished, SiteTable& sites);

 private:
  // Room for a call that logs twice, and an odd number of cache lines, so that lanes do not share
  // cache sets.
  static constexpr int stride = capacity + 8;

  void flush_in_step(std::array<const Entry*, lanes>& next, SiteTable& sites);
  template <int count>
  bool count_in_step(const std::array<const Entry*, lanes>& next, std::ptrdiff_t at,
                     SiteTable& sites);
  int cost_in_step(const std::array<const Entry*, lanes>& next, std::ptrdiff_t at, Entry stride);

  struct Known {
    std::uint64_t key = ~std::uint64_t{0};
    int cost = 0;
  };
  std::array<Known, 256> known_;
  std::vector<Entry> entries_;
};

}  // namespace gemm::simt
