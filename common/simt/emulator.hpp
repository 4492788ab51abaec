// The emulator as the harness sees it: device buffers, counts, faults, and traces of CPU code.
// It executes CUDA kernels thread by thread on the CPU, from calls that g++ makes at every load
// and store (-fsanitize=thread), answered here instead of in the sanitizer's library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace gemm::simt {

/// A line of the program's source. `line` is 0 where debug information is missing; `file` is then
/// the function and the offset in it.
struct Source {
  std::string file;
  int line = 0;
};

/// "11_gpu_register_tiling.cu:52"
std::string to_string(const Source& source);

/// An error of a kernel. `what()` says it on one line.
class Fault : public std::runtime_error {
 public:
  enum class Kind {
    out_of_bounds,
    misaligned,
    uninitialised_shared,
    shared_race,
    async_not_waited,
    divergent_barrier,
    stack_overflow,
  };
  /// Where it happened; `other` is the second access of a race, with other.thread -1 otherwise.
  struct Place {
    int thread = -1;
    Source source;
  };

  Fault(Kind kind, std::int64_t block, Place place, Place other, std::string array,
        std::int64_t index, const std::string& line)
      : std::runtime_error(line),
        kind(kind),
        block(block),
        place(std::move(place)),
        other(std::move(other)),
        array(std::move(array)),
        index(index) {}

  Kind kind;
  std::int64_t block;
  Place place, other;
  std::string array;
  std::int64_t index;
};

/// Accesses of one kind. A request is what one warp instruction asks for; `transactions` are the
/// 32-byte sectors it touches in global memory, the wavefronts it takes in shared memory.
struct Requests {
  std::int64_t bytes = 0, requests = 0, transactions = 0;
  Requests& operator+=(const Requests& other) {
    bytes += other.bytes;
    requests += other.requests;
    transactions += other.transactions;
    return *this;
  }
  bool operator==(const Requests&) const = default;
};

/// Accesses of one instruction of the program.
struct Site {
  std::uint32_t address;
  bool shared, write;
  int bytes_per_lane;
  Requests requests;
};

/// What kernels did. `barriers` counts a __syncthreads once per block.
struct Counts {
  Requests global_load, global_store, shared_load, shared_store;
  std::int64_t barriers = 0;
  std::vector<Site> sites;
};

/// The source lines of sites, in their order.
std::vector<Source> sources(const std::vector<Site>& sites);

/// Collects the counts of every launch of this host thread as long as it lives.
class Count {
 public:
  Count();
  ~Count();
  Count(const Count&) = delete;
  Count& operator=(const Count&) = delete;

  const Counts& result() const { return counts_; }

 private:
  friend void collect(const Counts& counts);
  Counts counts_;
  Count* outer_;
};

/// Host memory that kernels may use as global memory, as long as this lives. Kernels fault on
/// everything outside such buffers.
class DeviceBuffer {
 public:
  DeviceBuffer(const void* begin, std::size_t bytes, std::string name);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

 private:
  const void* begin_;
};

/// An access of traced code to a device buffer. Addresses depend only on the order in which
/// buffers were made: each starts at the next multiple of 256.
using Sink = void (*)(void* context, std::uint64_t address, int bytes, bool write);

void trace(void (*code)(void*), void* code_context, Sink sink, void* sink_context);

/// Runs CPU code that was compiled for the emulator and hands its accesses to device buffers to
/// sink(address, bytes, write), in program order. Only this host thread is traced.
template <typename Code, typename Sink>
void trace(Code&& code, Sink&& sink) {
  trace([](void* c) { (*static_cast<std::remove_reference_t<Code>*>(c))(); }, &code,
        [](void* s, std::uint64_t address, int bytes, bool write) {
          (*static_cast<std::remove_reference_t<Sink>*>(s))(address, bytes, write);
        },
        &sink);
}

}  // namespace gemm::simt
