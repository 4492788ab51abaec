// A device as the harness sees it: memory, a way to run and time a kernel, and an fp64 reference.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/counts.hpp"
#include "common/gemm.hpp"

namespace gemm {

/// One implementation per Device: backend_cpu.cpp, backend_gpu.cu, backend_emulator.cpp.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual Device device() const = 0;

  /// "NVIDIA H200, sm_90", "AMD EPYC", "SIMT emulator".
  virtual std::string name() const = 0;

  /// Compute capability times ten (90 for 9.0); 0 off the GPU.
  virtual int compute_capability() const { return 0; }

  /// Bytes that `allocate` can still give.
  virtual std::size_t free_bytes() const = 0;

  /// Device memory, aligned to 256 bytes; messages call it `name`. Throws Refusal(no_memory).
  virtual void* allocate(std::size_t bytes, const std::string& name) = 0;
  virtual void release(void* memory) = 0;
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  virtual void fill(void* memory, unsigned char byte, std::size_t bytes) = 0;

  /// True where an access outside what `allocate` gave is reported as it happens; elsewhere
  /// operands are kept between guard words.
  virtual bool checks_bounds() const { return false; }

  /// Starts the run and waits for it. Throws Refusal(device_error) when it fails, simt::Fault on
  /// the emulator.
  virtual void finish(const Run& run) = 0;

  /// Seconds one run takes: the mean of `launches` back to back, by CUDA events or a monotonic
  /// clock. `cold`: the last-level cache is flushed before, and launches must be 1.
  virtual double seconds(const Run& run, int launches, bool cold) = 0;

  /// FLOP/s of a loop of FMAs at this moment, on the threads that kernels run on; takes a
  /// millisecond or two. 0 where the peak that was measured at the start holds for the whole run.
  virtual double peak_now(int) { return 0; }

  /// What the last run did; nothing where the device does not count.
  virtual std::optional<Counts> counts() const { return std::nullopt; }

  /// Rows row0 .. row0 + rows of A * B and of |A| * |B| in fp64, computed on the device by code of
  /// its own, written densely (rows x N) to host memory. `magnitude` may be null.
  virtual void reference(const Problem& problem, int row0, int rows, double* product,
                         double* magnitude) = 0;
};

/// Opens a device. Throws Refusal(no_device) saying what is missing.
std::unique_ptr<Backend> open_backend(Device device);

/// The devices behind open_backend. open_gpu and open_emulator exist in builds that have them.
std::unique_ptr<Backend> open_cpu();
std::unique_ptr<Backend> open_gpu();
std::unique_ptr<Backend> open_emulator();

/// Device memory with an owner.
class Buffer {
 public:
  Buffer(Backend& backend, std::size_t bytes, const std::string& name)
      : backend_(&backend), memory_(backend.allocate(bytes, name)), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept
      : backend_(other.backend_),
        memory_(std::exchange(other.memory_, nullptr)),
        bytes_(other.bytes_) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer() {
    if (memory_) backend_->release(memory_);
  }

  void* get() const { return memory_; }
  std::size_t size() const { return bytes_; }

 private:
  Backend* backend_;
  void* memory_;
  std::size_t bytes_;
};

}  // namespace gemm
