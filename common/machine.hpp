// The machine under the kernels: what it is, and its measured ceilings.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/backend.hpp"
#include "common/gemm.hpp"

namespace gemm {

/// One level of memory: its size (0: unbounded) and the rate at which a loop of loads was seen to
/// read it.
struct MemoryLevel {
  std::string name;
  std::int64_t bytes = 0;
  double bytes_per_second = 0;
  int line_bytes = 0, ways = 0;  ///< of a CPU's cache; 0 where nobody tells
};

/// Ceilings measured by loops of FMAs and of loads on this machine, a fraction of a second each.
/// On the emulator everything is 0: its times are not a GPU's.
struct Machine {
  std::string name;
  double peak_flops = 0;  ///< measured FMA rate of the threads asked for
  double data_sheet_flops = 0;  ///< from clock and units; 0 where unknown
  std::vector<MemoryLevel>
      levels{};  ///< nearest first: L1, L2, .., memory; on a GPU: shared, L2, memory
  /// Everything a result must carry: device, driver, toolkit, CPU, compiler, build type, git
  /// revision, in print order.
  std::vector<std::pair<std::string, std::string>> facts{};
};

/// Names the machine and gathers its facts, measures nothing.
Machine describe_machine(Backend& backend);

/// The same with its ceilings. `threads`: CPU threads that the peak and the bandwidths are for.
/// `peak`: measures the unit that takes the place of FMAs, if one does.
Machine measure_machine(Backend& backend, int threads, const std::function<double(int)>& peak = {});

/// This CPU's data caches, nearest first, as the operating system reports them, or else the C
/// library; empty where neither does.
std::vector<MemoryLevel> cpu_caches();

/// What a device's sensors say at this moment; 0 where there is no sensor.
struct Pulse {
  double clock_mhz = 0, watts = 0, celsius = 0;
};

/// Reads the sensors of the CPU, or through NVML those of the GPU.
Pulse read_pulse(Device device);

}  // namespace gemm
