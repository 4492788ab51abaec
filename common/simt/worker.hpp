// One host thread that executes blocks: the threads of a block are fibers on it.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/simt/emulator.hpp"
#include "common/simt/program.hpp"
#include "common/simt/warp_log.hpp"

namespace gemm::simt {

constexpr int max_threads = 1024;

/// A device buffer. `device` is where it starts in the address space that is counted and traced.
struct Span {
  std::uintptr_t begin;
  std::uint64_t bytes, device;
  std::string name;
};

/// What all workers of a launch share.
struct Launch {
  std::vector<SharedArray> arrays;
  std::vector<Span> spans;
  int threads;
  std::int64_t blocks;
  void (*invoke)(const void*);
  const void* body;
  std::size_t parameters;
};

/// Who touched a shared word last. A stamp is interval << 12 | flags | thread; an interval is the
/// time between two barriers, numbered over all blocks of a worker. A mark is the warp's epoch
/// (the number of its __syncwarp so far in this interval) << 24 | site.
struct Shadow {
  std::uint32_t write = 0, write_mark = 0, read = 0, read_mark = 0;
};

constexpr int interval_shift = 12;
constexpr std::uint32_t site_mask = (1 << 24) - 1;
constexpr std::uint32_t thread_mask = 1023;
constexpr std::uint32_t other_lanes = 1 << 10;  // lanes of one warp read it, in one epoch
constexpr std::uint32_t other_warps = 1 << 11;
constexpr std::uint32_t last_interval = (std::uint32_t{1} << (32 - interval_shift)) - 2;
constexpr std::uint32_t outside = ~std::uint32_t{0};  // in no array
constexpr std::uint32_t in_flight = outside - 1;  // an asynchronous copy has not arrived

/// An error as a hook sees it.
struct RawFault {
  Fault::Kind kind{};
  std::uint64_t where = 0;  // byte in shared memory, or address
  int bytes = 0;
  bool shared = false, write = false;
  int thread = -1;
  std::uint32_t site = 0;
  int other_thread = -1;
  std::uint32_t other_site = 0;
  bool other_write = false;
};

/// What the hooks look at on every access. One without memory stands for "not in a kernel".
struct View {
  std::uintptr_t shared_begin = 0;
  std::uint64_t shared_bytes = 0;
  Shadow* shadow = nullptr;
  std::uint32_t block_begin = 0;  // stamp of the block's first interval
  std::uint32_t interval_begin = 0;  // stamp of this interval
  std::uint32_t stamp = 0;  // interval_begin | thread
  std::uint32_t epoch = 0;  // << 24
  Entry* log = nullptr;
  Entry* log_limit = nullptr;
  Entry entry_bias = 0;  // takes the start of the program off a return address
  const Span* spans = nullptr;
  const Span* spans_end = nullptr;
  Sink sink = nullptr;
  void* sink_context = nullptr;
  int thread = 0;
  std::uint32_t block = 0;
  const Launch* launch = nullptr;
};

/// The view of this host thread. Inside a kernel it is a Worker.
extern constinit thread_local View* current;

class Worker : public View {
 public:
  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Prepares for blocks of a launch, on the host thread that is going to run them.
  void begin(const Launch& launch);

  /// Runs one block. Returns its fault.
  std::optional<RawFault> run(std::int64_t block);

  /// Ends the launch: adds what was counted.
  void finish(Counts& counts);

  /// One line about a fault, and its exception.
  Fault describe(const RawFault& fault) const;

  // What a thread of a kernel may do; only called on its fiber.
  void block_barrier(std::uint32_t site);
  void warp_barrier(std::uint32_t mask, std::uint32_t site);
  std::uint64_t exchange(std::uint32_t mask, std::uint64_t value, int source, std::uint32_t site);
  void log_full();
  void copy_async(void* to, const void* from, std::size_t bytes, std::size_t zeros,
                  std::uint32_t site);
  void commit_async();
  void wait_async(std::size_t groups);
  [[noreturn]] void raise(RawFault fault);

  // The parts of the hooks that are not in a hurry.
  void note_read(std::uint64_t at, int bytes, std::uint32_t site);
  void note_write(std::uint64_t at, int bytes, std::uint32_t site);
  bool is_private(const void* p) const;
  [[noreturn]] void raise_outside(const void* p, int bytes, bool write, std::uint32_t site);

 private:
  using Context = boost::context::detail::fcontext_t;
  static constexpr std::size_t stack_bytes = 64 << 10;
  enum class State : unsigned char { ready, at_barrier, at_warp_barrier, log_full, done };

  static void enter(boost::context::detail::transfer_t from);
  // Stacks grow down. One stack's worth lies below thread 0's, so that an overflow there does no
  // harm before it is noticed.
  char* stack(int thread) const { return stacks_.get() + (thread + 1) * stack_bytes; }
  void resume_first();
  void leave(State state);
  void select(int lane);
  void run_warp(int warp);
  std::uint32_t lanes_in(State state) const;
  std::uint32_t released_lanes();
  void end_interval();
  void next_interval();
  void next_epoch();
  void renumber();
  bool by_other(std::uint32_t other) const { return (other ^ stamp) & thread_mask; }
  bool same_warp(std::uint32_t other) const { return ((other ^ stamp) & thread_mask) < 32; }
  bool ordered(std::uint32_t other, std::uint32_t mark) const;
  void note_reader(Shadow& word, std::uint32_t site);
  void check_window(std::uint64_t at, int bytes, bool write, std::uint32_t site);
  [[noreturn]] void race(std::uint64_t at, int bytes, bool write, std::uint32_t site,
                         std::uint32_t other_stamp, std::uint32_t other_mark, bool other_write);

  View* outer_ = nullptr;
  std::vector<Shadow> shadow_;
  std::unique_ptr<char[]> stacks_;
  std::vector<Context> contexts_ = std::vector<Context>(max_threads);
  std::vector<State> states_ = std::vector<State>(max_threads);
  std::vector<std::uint32_t> sites_ = std::vector<std::uint32_t>(max_threads);
  std::uint32_t wanted_lanes_[32] = {};  // masks of the lanes that wait at a warp barrier
  std::uint64_t brought_[2][32] = {};
  std::vector<unsigned char> exchanges_ = std::vector<unsigned char>(max_threads);
  Context scheduler_ = nullptr;
  WarpLog log_;
  SiteTable table_;
  int warp_ = 0, lane_ = 0;
  std::uint32_t pending_ = 0;  // lanes that still run in this round, lane_ included
  std::uint32_t interval_ = 0;
  std::int64_t barriers_ = 0;
  std::optional<RawFault> fault_, read_too_early_;
  std::pair<std::uint32_t, std::uint32_t> same_line_{};  // two sites known to be one barrier

  struct Copy {
    std::uint64_t to;
    const void* from;
    std::size_t bytes, zeros;
    std::uint32_t site;
  };
  // Per thread: groups of copies in flight, the last of them still open.
  std::vector<std::vector<std::vector<Copy>>> copies_ =
      std::vector<std::vector<std::vector<Copy>>>(max_threads);
};

}  // namespace gemm::simt
