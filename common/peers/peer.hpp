// One peer: how it is asked for, and how it is opened.
#pragma once

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
};

/// The CBLAS libraries of a CPU, the default first.
std::vector<Peer> cpu_peers();

/// cuBLAS; exists in builds with CUDA.
std::vector<Peer> gpu_peers();

/// A library's multiplication as a kernel. Nobody knows what traffic it asks for.
inline Kernel peer_kernel(std::string name, std::function<Run(const Problem&)> prepare) {
  return {.name = std::move(name), .prepare = std::move(prepare), .traffic = [](Shape) {
            return Traffic{};
          }};
}

}  // namespace gemm
