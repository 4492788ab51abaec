#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include "common/backend_host.hpp"
#include "common/error.hpp"
#include "common/machine_parts.hpp"
#include "common/reference.hpp"

namespace gemm {
namespace {

constexpr std::size_t unknown = std::numeric_limits<std::size_t>::max();

// The number after `key` in a file of the operating system, or the first number without a key.
std::size_t number_in(const char* path, const std::string& key = {}) {
  std::ifstream file(path);
  std::string word;
  while (!key.empty() && file >> word && word != key) {
  }
  std::size_t number = 0;
  return file >> number ? number : unknown;
}

class CpuBackend : public HostBackend {
 public:
  Device device() const override { return Device::cpu; }

  std::string name() const override {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
      if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
    return "CPU";
  }

  void finish(const Run& run) override { run.start(nullptr); }

  double seconds(const Run& run, int launches, bool cold) override {
    if (cold) flush_caches();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < launches; ++i) run.start(nullptr);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    return elapsed.count() / launches;
  }

  double peak_now(int threads) override { return cpu_fma_rate_now(threads); }

 private:
  // Writes twice the largest cache, by all threads, so that every core's own caches are hit too.
  void flush_caches() {
    if (flushed_.empty()) {
      std::int64_t largest = 0;
      for (const MemoryLevel& level : cpu_caches()) largest = std::max(largest, level.bytes);
      flushed_.resize(2 * largest);
    }
    ++flush_value_;
    const std::int64_t bytes = flushed_.size();
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < bytes; ++i) flushed_[i] = flush_value_;
  }

  std::vector<unsigned char> flushed_;
  unsigned char flush_value_ = 0;
};

}  // namespace

std::size_t HostBackend::free_bytes() const {
  const std::size_t available = number_in("/proc/meminfo", "MemAvailable:");
  const std::size_t machine = available == unknown
                                  ? std::size_t(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE)
                                  : available * 1024;
  const std::size_t limit = number_in("/sys/fs/cgroup/memory.max");
  const std::size_t used = number_in("/sys/fs/cgroup/memory.stat", "anon");
  if (limit == unknown || used == unknown) return machine;
  return std::min(machine, limit - std::min(used, limit));
}

void* HostBackend::allocate(std::size_t bytes, const std::string& name) {
  constexpr std::size_t alignment = 256;
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + alignment - 1) & -alignment;
  void* memory = rounded > free_bytes() ? nullptr : std::aligned_alloc(alignment, rounded);
  if (!memory)
    throw Refusal(Exit::no_memory,
                  fmt::format("{:.1f} GB for {} do not fit in the {:.1f} GB of memory "
                              "that are free: choose a smaller size",
                              bytes * 1e-9, name, free_bytes() * 1e-9));
  return memory;
}

void HostBackend::release(void* memory) { std::free(memory); }

void HostBackend::upload(void* to, const void* from, std::size_t bytes) {
  // Unlike memcpy, it takes a null pointer to no bytes: what an empty vector gives.
  std::copy_n(static_cast<const char*>(from), bytes, static_cast<char*>(to));
}

void HostBackend::download(void* to, const void* from, std::size_t bytes) {
  upload(to, from, bytes);
}

void HostBackend::fill(void* memory, unsigned char byte, std::size_t bytes) {
  std::memset(memory, byte, bytes);
}

void HostBackend::reference(const Problem& problem, int row0, int rows, double* product,
                            double* magnitude) {
  reference_rows(problem, row0, rows, product, magnitude);
}

std::unique_ptr<Backend> open_cpu() { return std::make_unique<CpuBackend>(); }

}  // namespace gemm
