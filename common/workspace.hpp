// Memory that a CPU kernel packs its operands into.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#if defined(GEMM_EMULATOR)
#include "common/simt/emulator.hpp"
#endif

namespace gemm {

#if defined(GEMM_EMULATOR)
inline namespace emulator {
#else
inline namespace cpu {
#endif

/// Room for `floats` floats, not initialised, aligned to a page of memory; on the emulator, what is
/// read and written there is counted like an operand. Throws std::bad_alloc.
class Workspace {
 public:
  explicit Workspace(std::size_t floats)
      : bytes_((floats * sizeof(float) + page) / page * page),
        memory_(static_cast<float*>(std::aligned_alloc(page, bytes_))) {
    if (!memory_) throw std::bad_alloc();
  }

  float* data() const { return memory_.get(); }

 private:
  static constexpr std::size_t page = 4096;

  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };

  std::size_t bytes_;
  std::unique_ptr<float, Free> memory_;
#if defined(GEMM_EMULATOR)
  simt::DeviceBuffer counted_{memory_.get(), bytes_, "a workspace"};
#endif
};

}  // namespace
}  // namespace gemm
