#include <chrono>
#include <map>

#include "common/backend_host.hpp"
#include "common/machine.hpp"
#include "common/model/cache_simulator.hpp"
#include "common/simt/emulator.hpp"

namespace gemm {
namespace {

// The first two caches of this machine. Where it does not tell, or where their sets do not come out
// even, usual ones.
std::vector<CacheCount> caches_of_this_machine() {
  std::vector<CacheCount> caches = {{.name = "L1", .cache = {.bytes = 32 << 10, .ways = 8}},
                                    {.name = "L2", .cache = {.bytes = 512 << 10, .ways = 8}}};
  for (const MemoryLevel& level : cpu_caches())
    for (auto& [name, cache, misses] : caches)
      if (name == level.name && level.line_bytes == cache.line_bytes && level.ways > 0 &&
          level.bytes % (level.line_bytes * level.ways) == 0)
        cache = {.bytes = level.bytes, .ways = level.ways};
  return caches;
}

WarpAccesses summary(const simt::Requests& requests) {
  return {.requests = requests.requests, .pieces = requests.transactions};
}

class EmulatorBackend : public HostBackend {
 public:
  Device device() const override { return Device::emulator; }

  std::string name() const override { return "SIMT emulator"; }

  bool checks_bounds() const override { return true; }

  void* allocate(std::size_t bytes, const std::string& name) override {
    void* const memory = HostBackend::allocate(bytes, name);
    buffers_.try_emplace(memory, memory, bytes, name);
    return memory;
  }

  void release(void* memory) override {
    buffers_.erase(memory);
    HostBackend::release(memory);
  }

  // Kernels are counted by the emulator; what runs on this thread itself is a CPU step, and its
  // accesses go through a cache simulation.
  void finish(const Run& run) override {
    counts_.emplace();
    counts_->caches = caches_of_this_machine();
    CacheSimulator simulator({counts_->caches[0].cache, counts_->caches[1].cache});
    simt::Count count;
    simt::trace([&] { run.start(nullptr); },
                [&](std::uint64_t address, int bytes, bool write) {
                  auto& requested = counts_->requested;
                  (write ? requested.global_stored : requested.global_loaded) += bytes;
                  simulator.access(address, bytes);
                });
    counts_->accesses = simulator.accesses();
    for (std::size_t i = 0; i < counts_->caches.size(); ++i)
      counts_->caches[i].misses = simulator.misses(i);
    if (simulator.accesses() == 0) counts_->caches.clear();

    const simt::Counts& warps = count.result();
    counts_->requested.global_loaded += warps.global_load.bytes;
    counts_->requested.global_stored += warps.global_store.bytes;
    counts_->requested.shared_loaded += warps.shared_load.bytes;
    counts_->requested.shared_stored += warps.shared_store.bytes;
    counts_->global_loads = summary(warps.global_load);
    counts_->global_stores = summary(warps.global_store);
    counts_->shared_loads = summary(warps.shared_load);
    counts_->shared_stores = summary(warps.shared_store);
    counts_->barriers = warps.barriers;
  }

  // Cold or warm makes no difference to the time it takes to execute and count.
  double seconds(const Run& run, int launches, bool) override {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < launches; ++i) finish(run);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    return elapsed.count() / launches;
  }

  std::optional<Counts> counts() const override { return counts_; }

 private:
  std::map<void*, simt::DeviceBuffer> buffers_;
  std::optional<Counts> counts_;
};

}  // namespace

std::unique_ptr<Backend> open_emulator() { return std::make_unique<EmulatorBackend>(); }

}  // namespace gemm
