// What the backends that live in host memory share: the CPU and the emulator.
#pragma once

#include "common/backend.hpp"

namespace gemm {

class HostBackend : public Backend {
 public:
  /// What the operating system, or the control group we run in, can still give.
  std::size_t free_bytes() const override;

  void* allocate(std::size_t bytes, const std::string& name) override;
  void release(void* memory) override;
  void upload(void* to, const void* from, std::size_t bytes) override;
  void download(void* to, const void* from, std::size_t bytes) override;
  void fill(void* memory, unsigned char byte, std::size_t bytes) override;
  void reference(const Problem& problem, int row0, int rows, double* product,
                 double* magnitude) override;
};

}  // namespace gemm
