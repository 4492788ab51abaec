#include <dlfcn.h>

#include <algorithm>
#include <string>

#include "common/launch.hpp"
#include "common/machine_parts.hpp"

namespace gemm {
namespace {

constexpr int threads = 256;

// `rounds` times 16 FMAs a thread that do not wait for each other. The sum is only ever stored when
// it is -1, which it never is, and which the compiler cannot know.
__global__ void __launch_bounds__(threads)
    multiply_add(int rounds, float factor, float term, float* out) {
  constexpr int sums = 16;
  float sum[sums];
#pragma unroll
  for (int i = 0; i < sums; ++i) sum[i] = threadIdx.x + i;
#pragma unroll 8
  for (int round = 0; round < rounds; ++round)
#pragma unroll
    for (int i = 0; i < sums; ++i) sum[i] = fmaf(sum[i], factor, term);
  float total = 0;
#pragma unroll
  for (int i = 0; i < sums; ++i) total += sum[i];
  if (total == -1) *out = total;
}

__device__ void add(float4& sum, const float4& value) {
  sum.x += value.x;
  sum.y += value.y;
  sum.z += value.z;
  sum.w += value.w;
}

// Reads `count` float4 of global memory `passes` times, past L1, which would otherwise answer.
__global__ void __launch_bounds__(threads)
    read_global(const float4* data, std::int64_t count, int passes, float* out) {
  constexpr int in_flight = 4;
  const std::int64_t stride = std::int64_t{gridDim.x} * threads;
  const std::int64_t first = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  float4 sum{};
  for (int pass = 0; pass < passes; ++pass)
    for (std::int64_t i = first; i < count; i += in_flight * stride) {
      float4 value[in_flight] = {};
#pragma unroll
      for (int j = 0; j < in_flight; ++j)
        if (i + j * stride < count) value[j] = __ldcg(data + i + j * stride);
#pragma unroll
      for (int j = 0; j < in_flight; ++j) add(sum, value[j]);
    }
  if (sum.x + sum.y + sum.z + sum.w == -1) *out = sum.x;
}

// Each warp reads whole rows of 512 bytes, free of bank conflicts: `rounds` times 16 float4 a
// thread.
__global__ void __launch_bounds__(threads) read_shared(int rounds, float* out) {
  constexpr int reads = 16;
  __shared__ float4 data[threads + reads];
  for (int i = threadIdx.x; i < threads + reads; i += threads) data[i] = {};
  __syncthreads();
  float4 sum{};
  for (int round = 0; round < rounds; ++round) {
    const float4* const from = data + (threadIdx.x ^ (round & 31));
#pragma unroll
    for (int i = 0; i < reads; ++i) add(sum, from[i]);
  }
  if (sum.x + sum.y + sum.z + sum.w == -1) *out = sum.x;
}

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "creating an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_;
};

class Memory {
 public:
  explicit Memory(std::size_t bytes) {
    check(cudaMalloc(&memory_, bytes), "allocating memory to measure with");
    check(cudaMemset(memory_, 0, bytes), "clearing memory to measure with");
  }
  ~Memory() { cudaFree(memory_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_ = nullptr;
};

// Seconds of the fastest of several starts.
template <typename Start>
double best_of(int starts, const Start& start) {
  const Event begin, end;
  float best = 1e30f;
  for (int i = 0; i < starts; ++i) {
    check(cudaEventRecord(begin), "recording an event");
    start();
    check(cudaGetLastError(), "measuring the GPU");
    check(cudaEventRecord(end), "recording an event");
    check(cudaEventSynchronize(end), "measuring the GPU");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "measuring the GPU");
    best = std::min(best, milliseconds);
  }
  return best / 1e3;
}

int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "choosing the GPU");
  return device;
}

int attribute(cudaDeviceAttr name) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, name, current_device()), "asking the GPU what it is");
  return value;
}

// FP32 units of a multiprocessor. Source: CUDA Programming Guide, arithmetic instructions table.
int fp32_units(int compute_capability) {
  return compute_capability <= 75 || compute_capability == 80 ? 64 : 128;
}

// "13.0" of 13000.
std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

// NVIDIA's management library, which comes with the driver; without it nothing is sensed.
// Signatures and constants: nvml.h.
class Nvml {
 public:
  Nvml() {
    library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    char bus_id[32] = {};
    if (!library_ || call("nvmlInit_v2") != 0 ||
        cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, current_device()) != cudaSuccess ||
        call("nvmlDeviceGetHandleByPciBusId_v2", static_cast<const char*>(bus_id), &device_) != 0)
      device_ = nullptr;
  }

  Pulse pulse() const {
    if (!device_) return {};
    constexpr int sm_clock = 1, gpu_temperature = 0;
    unsigned mhz = 0, milliwatts = 0, celsius = 0;
    call("nvmlDeviceGetClockInfo", device_, sm_clock, &mhz);
    call("nvmlDeviceGetPowerUsage", device_, &milliwatts);
    call("nvmlDeviceGetTemperature", device_, gpu_temperature, &celsius);
    return {.clock_mhz = double(mhz), .watts = milliwatts / 1e3, .celsius = double(celsius)};
  }

  std::string driver() const {
    char text[96] = {};
    if (device_) call("nvmlSystemGetDriverVersion", static_cast<char*>(text), 96u);
    return text[0] ? text : "unknown";
  }

 private:
  // 0 is success; a function that the driver does not have fails.
  template <typename... Arguments>
  int call(const char* function, Arguments... arguments) const {
    const auto pointer = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, function));
    return pointer ? pointer(arguments...) : -1;
  }

  void* library_ = nullptr;
  void* device_ = nullptr;
};

const Nvml& nvml() {
  static const Nvml opened;
  return opened;
}

}  // namespace

void describe_gpu(Machine& machine) {
  cudaDeviceProp gpu{};
  check(cudaGetDeviceProperties(&gpu, current_device()), "asking the GPU what it is");
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver), "asking for the driver's version");
  check(cudaRuntimeGetVersion(&runtime), "asking for the runtime's version");
  const int kilohertz = attribute(cudaDevAttrClockRate);
  const int units = fp32_units(10 * gpu.major + gpu.minor);
  machine.data_sheet_flops = 2e3 * units * gpu.multiProcessorCount * kilohertz;

  auto& facts = machine.facts;
  facts.emplace_back("gpu", gpu.name);
  facts.emplace_back("compute_capability",
                     std::to_string(gpu.major) + "." + std::to_string(gpu.minor));
  facts.emplace_back("multiprocessors", std::to_string(gpu.multiProcessorCount));
  facts.emplace_back("gpu_clock_mhz_max", std::to_string(kilohertz / 1000));
  facts.emplace_back("gpu_memory_mib", std::to_string(gpu.totalGlobalMem >> 20));
  facts.emplace_back("gpu_memory_clock_mhz",
                     std::to_string(attribute(cudaDevAttrMemoryClockRate) / 1000));
  facts.emplace_back("gpu_memory_bus_bits", std::to_string(gpu.memoryBusWidth));
  facts.emplace_back("driver", nvml().driver() + " (CUDA " + version(driver) + ")");
  facts.emplace_back("cuda_runtime", version(runtime));
}

void measure_gpu(Machine& machine) {
  constexpr int starts = 10, fma_rounds = 8192, shared_rounds = 1024, l2_passes = 16;
  const int multiprocessors = attribute(cudaDevAttrMultiProcessorCount);
  const int blocks = multiprocessors * attribute(cudaDevAttrMaxThreadsPerMultiProcessor) / threads;
  const double all_threads = double(blocks) * threads;
  const std::int64_t l2 = attribute(cudaDevAttrL2CacheSize);
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for free memory");
  // Far more than L2 holds, where there is room for it.
  const std::int64_t far =
      std::min<std::int64_t>(free / 2, std::max<std::int64_t>(1 << 30, 8 * l2));
  const std::int64_t near = std::min(l2 / 4, far);
  const Memory memory(far), out(sizeof(float));

  const double fma = best_of(
      starts, [&] { multiply_add<<<blocks, threads>>>(fma_rounds, 0.5f, 1.0f, out.as<float>()); });
  machine.peak_flops = 2.0 * 16 * fma_rounds * all_threads / fma;

  const double shared =
      best_of(starts, [&] { read_shared<<<blocks, threads>>>(shared_rounds, out.as<float>()); });
  const auto read_rate = [&](std::int64_t bytes, int passes) {
    const std::int64_t count = bytes / sizeof(float4);
    const double seconds = best_of(starts, [&] {
      read_global<<<blocks, threads>>>(memory.as<float4>(), count, passes, out.as<float>());
    });
    return double(count) * sizeof(float4) * passes / seconds;
  };
  machine.levels = {
      {"shared", attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor),
       16.0 * sizeof(float4) * shared_rounds * all_threads / shared},
      {"L2", l2, read_rate(near, l2_passes)},
      {"memory", 0, read_rate(far, 1)},
  };
}

Pulse gpu_pulse() { return nvml().pulse(); }

}  // namespace gemm
