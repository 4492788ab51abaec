// One peer: how it is asked for, and how it is opened.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/gemm.hpp"

namespace gemm {

struct Peer {
  std::string name;
  /// One line to type that installs it.
  std::string how_to_get;
  /// The kernel, or nothing where the library is not installed.
  std::function<std::optional<Kernel>(int threads)> open;
  /// Which form of A and B it reads.
  Element operands = Element::fp32;
};

/// The CBLAS libraries of a CPU, the default first.
std::vector<Peer> cpu_peers();

/// cuBLAS; exists in builds with CUDA.
std::vector<Peer> gpu_peers();

/// BLAS takes leading dimensions of at least 1, even of matrices that have no columns.
inline int leading_dimension(std::int64_t ld) { return ld > 1 ? static_cast<int>(ld) : 1; }

/// A library's multiplication as a kernel. Nobody knows what traffic it asks for.
inline Kernel peer_kernel(std::string name, std::function<Run(const Problem&)> prepare) {
  return {.name = std::move(name), .prepare = std::move(prepare), .traffic = [](Shape) {
            return Traffic{};
          }};
}

}  // namespace gemm
