// Spreads the blocks of a launch over host threads, and keeps what launches share.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "common/simt/cuda.hpp"
#include "common/simt/worker.hpp"

namespace gemm::simt {

thread_local Count* innermost = nullptr;

Count::Count() : outer_(innermost) { innermost = this; }
Count::~Count() { innermost = outer_; }

void collect(const Counts& counts);

namespace {

constexpr std::uint64_t alignment = 256;

// Device buffers, in order of their start.
class Memory {
 public:
  static Memory& self() {
    static Memory memory;
    return memory;
  }

  void add(const void* begin, std::size_t bytes, std::string name) {
    const std::lock_guard lock(mutex_);
    std::uint64_t device = 0;
    for (const Span& span : spans_) device = std::max(device, span.device + span.bytes);
    device = (device + alignment - 1) / alignment * alignment;
    if (device + bytes >= std::uint64_t{1} << address_bits)
      throw std::length_error("the emulator takes device buffers of up to 32 GB");
    spans_.push_back({reinterpret_cast<std::uintptr_t>(begin), bytes, device, std::move(name)});
  }

  void remove(const void* begin) {
    const std::lock_guard lock(mutex_);
    std::erase_if(spans_, [&](const Span& span) {
      return span.begin == reinterpret_cast<std::uintptr_t>(begin);
    });
  }

  std::vector<Span> spans() {
    const std::lock_guard lock(mutex_);
    return spans_;
  }

 private:
  std::mutex mutex_;
  std::vector<Span> spans_;
};

// Host threads that wait for launches; the thread that launches works with them.
class Pool {
 public:
  static Pool& self() {
    static Pool pool;
    return pool;
  }

  Counts run(const Launch& launch) {
    const std::lock_guard one_at_a_time(launching_);
    next_block_ = 0;
    counts_ = {};
    fault_ = nullptr;
    const int helpers = int(std::min<std::int64_t>(threads_.size(), launch.blocks - 1));
    {
      const std::lock_guard lock(mutex_);
      launch_ = &launch;
      wanted_ = helpers;
      running_ = helpers;
    }
    start_.notify_all();
    work(workers_[0], launch);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return running_ == 0; });
    if (fault_) std::rethrow_exception(fault_);
    return std::move(counts_);
  }

 private:
  Pool() : workers_(std::max(1u, std::thread::hardware_concurrency())) {
    for (std::size_t i = 1; i < workers_.size(); ++i)
      threads_.emplace_back([this, i] { wait_for_work(workers_[i]); });
  }

  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    start_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void wait_for_work(Worker& worker) {
    std::unique_lock lock(mutex_);
    for (;;) {
      start_.wait(lock, [&] { return ends_ || wanted_ > 0; });
      if (ends_) return;
      --wanted_;
      const Launch& launch = *launch_;
      lock.unlock();
      work(worker, launch);
      lock.lock();
      if (--running_ == 0) done_.notify_one();
    }
  }

  void work(Worker& worker, const Launch& launch) {
    worker.begin(launch);
    for (std::int64_t block; (block = next_block_++) < launch.blocks;)
      if (const auto fault = worker.run(block)) {
        next_block_ = launch.blocks;
        const std::lock_guard lock(mutex_);
        if (!fault_) fault_ = std::make_exception_ptr(worker.describe(*fault));
      }
    const std::lock_guard lock(mutex_);
    worker.finish(counts_);
  }

  std::vector<Worker> workers_;
  std::vector<std::thread> threads_;
  std::mutex launching_, mutex_;
  std::condition_variable start_, done_;
  const Launch* launch_ = nullptr;
  int wanted_ = 0, running_ = 0;
  bool ends_ = false;
  std::atomic<std::int64_t> next_block_{0};
  Counts counts_;
  std::exception_ptr fault_;
};

}  // namespace

void collect(const Counts& counts) {
  for (Count* count = innermost; count; count = count->outer_) {
    Counts& sum = count->counts_;
    sum.global_load += counts.global_load;
    sum.global_store += counts.global_store;
    sum.shared_load += counts.shared_load;
    sum.shared_store += counts.shared_store;
    sum.barriers += counts.barriers;
    for (const Site& site : counts.sites) {
      const auto same = std::find_if(sum.sites.begin(), sum.sites.end(), [&](const Site& s) {
        return s.address == site.address && s.shared == site.shared && s.write == site.write &&
               s.bytes_per_lane == site.bytes_per_lane;
      });
      if (same == sum.sites.end())
        sum.sites.push_back(site);
      else
        same->requests += site.requests;
    }
  }
}

DeviceBuffer::DeviceBuffer(const void* begin, std::size_t bytes, std::string name) : begin_(begin) {
  Memory::self().add(begin, bytes, std::move(name));
}

DeviceBuffer::~DeviceBuffer() { Memory::self().remove(begin_); }

void launch(void* kernel, std::int64_t blocks, int threads, int dynamic_shared_bytes,
            void (*invoke)(const void*), const void* body, std::size_t parameters) {
  if (blocks == 0) return;
  collect(Pool::self().run({.arrays = Program::self().shared_arrays(kernel, dynamic_shared_bytes),
                            .spans = Memory::self().spans(),
                            .threads = threads,
                            .blocks = blocks,
                            .invoke = invoke,
                            .body = body,
                            .parameters = parameters}));
}

void trace(void (*code)(void*), void* code_context, Sink sink, void* sink_context) {
  const std::vector<Span> spans = Memory::self().spans();
  View tracer;
  tracer.spans = spans.data();
  tracer.spans_end = spans.data() + spans.size();
  tracer.sink = sink;
  tracer.sink_context = sink_context;
  struct Scope {
    View* outer = current;
    ~Scope() { current = outer; }
  } scope;
  current = &tracer;
  code(code_context);
}

}  // namespace gemm::simt
