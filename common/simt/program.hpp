// What this program's own file says about it: kernels, their shared arrays, and source lines.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "common/simt/emulator.hpp"

namespace gemm::simt {

/// A __shared__ array: where it lies in the thread's storage, and its size in bytes.
struct SharedArray {
  std::string name;
  std::uint64_t offset, bytes;
};

/// Addresses of code are told relative to the start of the program and fit in 24 bits.
class Program {
 public:
  static Program& self();

  /// Arrays that a kernel declares, and `dynamic_bytes` of dynamic_shared, in order of their place.
  std::vector<SharedArray> shared_arrays(const void* kernel, std::uint64_t dynamic_bytes = 0) const;

  /// Source lines of return addresses, by one run of addr2line; function and offset without it.
  std::vector<Source> sources(const std::vector<std::uint32_t>& addresses);

  std::uintptr_t begin() const { return begin_; }
  std::uintptr_t end() const { return end_; }

  /// Start of the calling thread's storage, from which SharedArray::offset counts.
  char* thread_storage() const;
  bool in_thread_storage(const void* p) const;

 private:
  // Names of an anonymous namespace are the same in every source file: `scope` numbers the file.
  static constexpr int everywhere = -1;
  struct Symbol {
    std::uint64_t address, bytes;
    std::string name;
    int scope;
  };

  Program();
  void read_segments();
  void read_symbols();
  std::string function_at(std::uint32_t address) const;

  std::uintptr_t begin_ = 0, end_ = 0, bias_ = 0;
  std::uint64_t anchor_offset_ = 0, storage_bytes_ = 0;
  std::string path_;
  std::vector<Symbol> functions_, arrays_;
  std::mutex mutex_;
  std::map<std::uint32_t, Source> known_;
};

}  // namespace gemm::simt
