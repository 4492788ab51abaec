#include "common/machine.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "common/machine_parts.hpp"

namespace gemm {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The value of "key : value" or key="value" in a file; empty where there is none.
std::string field(const std::string& path, const std::string& key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const auto at = line.find(separator);
    const auto from = line.find_first_not_of(" \t\"", at + 1);
    if (at == std::string::npos || from == std::string::npos) continue;
    return line.substr(from, line.find_last_not_of(" \t\"") + 1 - from);
  }
  return {};
}

// "32K", "8192K", "1M" as the kernel writes cache sizes.
std::int64_t bytes_of(const std::string& text) {
  if (text.empty()) return 0;
  const std::int64_t unit = text.back() == 'K' ? 1 << 10 : text.back() == 'M' ? 1 << 20 : 1;
  return std::stoll(text) * unit;
}

std::string cpu_name() {
  const std::string name = field("/proc/cpuinfo", "model name", ':');
  return name.empty() ? "unknown CPU" : name;
}

std::string operating_system() {
  utsname kernel{};
  uname(&kernel);
  const std::string release = field("/etc/os-release", "PRETTY_NAME", '=');
  return fmt::format("{} ({} {}, {})", release, kernel.sysname, kernel.release, kernel.machine);
}

std::string cache_text() {
  std::string text;
  for (const MemoryLevel& level : cpu_caches())
    text += fmt::format("{}{} {} KiB", text.empty() ? "" : ", ", level.name, level.bytes >> 10);
  return text;
}

void measure_cpu(Machine& machine, int threads) {
  constexpr std::int64_t least_memory = 64 << 20, most_memory = 512 << 20;
  machine.peak_flops = cpu_fma_rate(threads);
  machine.levels = cpu_caches();
  std::int64_t last = 0;
  for (MemoryLevel& level : machine.levels) {
    // The first two levels belong to a core, the third to all of them.
    const std::int64_t copies = level.name == "L3" ? 1 : threads;
    level.bytes_per_second = cpu_read_rate(level.bytes / 2 * copies, threads);
    last = level.bytes;
  }
  machine.levels.push_back(
      {"memory", 0, cpu_read_rate(std::clamp(2 * last, least_memory, most_memory), threads)});
}

}  // namespace

std::vector<MemoryLevel> cpu_caches() {
  std::vector<MemoryLevel> caches;
  for (int index = 0;; ++index) {
    const std::string at = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    const std::string level = first_line(at + "level");
    if (level.empty()) break;
    if (first_line(at + "type") != "Instruction")
      caches.push_back({.name = "L" + level,
                        .bytes = bytes_of(first_line(at + "size")),
                        .line_bytes = int(bytes_of(first_line(at + "coherency_line_size"))),
                        .ways = int(bytes_of(first_line(at + "ways_of_associativity")))});
  }
  std::sort(caches.begin(), caches.end(),
            [](const MemoryLevel& a, const MemoryLevel& b) { return a.name < b.name; });
  if (!caches.empty()) return caches;

  // Where /sys is not mounted, as in some containers, the C library may know.
  struct {
    const char* name;
    int bytes, line_bytes, ways;
  } constexpr questions[] = {
      {"L1", _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL1_DCACHE_LINESIZE, _SC_LEVEL1_DCACHE_ASSOC},
      {"L2", _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL2_CACHE_LINESIZE, _SC_LEVEL2_CACHE_ASSOC},
      {"L3", _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL3_CACHE_LINESIZE, _SC_LEVEL3_CACHE_ASSOC}};
  const auto answer = [](int question) { return std::max(0L, sysconf(question)); };
  for (const auto& ask : questions)
    if (const long bytes = answer(ask.bytes); bytes > 0)
      caches.push_back({.name = ask.name,
                        .bytes = bytes,
                        .line_bytes = int(answer(ask.line_bytes)),
                        .ways = int(answer(ask.ways))});
  return caches;
}

Machine describe_machine(Backend& backend) {
  Machine machine{.name = backend.name()};
  if (backend.device() == Device::gpu) {
#if defined(GEMM_HAVE_CUDA)
    describe_gpu(machine);
#endif
  }
  auto& facts = machine.facts;
  facts.emplace_back("cpu", cpu_name());
  facts.emplace_back("cpu_threads", std::to_string(std::thread::hardware_concurrency()));
  facts.emplace_back("cpu_caches", cache_text());
  facts.emplace_back("operating_system", operating_system());
  facts.emplace_back("compiler", GEMM_COMPILER);
  facts.emplace_back("build_type", GEMM_BUILD_TYPE);
  facts.emplace_back("git_revision", GEMM_GIT_REVISION);
  return machine;
}

Machine measure_machine(Backend& backend, int threads, const std::function<double(int)>& peak) {
  Machine machine = describe_machine(backend);
  if (backend.device() == Device::cpu) {
    measure_cpu(machine, threads);
    if (const double rate = peak ? peak(threads) : 0; rate > 0) machine.peak_flops = rate;
  } else if (backend.device() == Device::gpu) {
#if defined(GEMM_HAVE_CUDA)
    measure_gpu(machine);
#endif
    machine.facts.emplace_back("cpu_peak", fmt::format("{:.1f} GFLOP/s on {} thread(s), measured",
                                                       cpu_fma_rate(threads) / 1e9, threads));
  }
  return machine;
}

Pulse read_pulse(Device device) {
#if defined(GEMM_HAVE_CUDA)
  if (device == Device::gpu) return gpu_pulse();
#endif
  if (device != Device::cpu) return {};
  const std::string mhz = field("/proc/cpuinfo", "cpu MHz", ':');
  return {.clock_mhz = mhz.empty() ? 0 : std::stod(mhz)};
}

}  // namespace gemm
