// The parts that machine.cpp puts together: loops that run at a ceiling, and questions to a GPU.
#pragma once

#include <cstdint>

#include "common/machine.hpp"

namespace gemm {

/// FLOP/s of `threads` threads that do nothing but FMAs on vector registers: the best window.
double cpu_fma_rate(int threads);

/// Bytes/s at which `threads` threads read `bytes` in all, again and again: the best pass.
double cpu_read_rate(std::int64_t bytes, int threads);

/// Defined in common/cuda, and only called where the build has a CUDA toolkit.
void describe_gpu(Machine& machine);
void measure_gpu(Machine& machine);
Pulse gpu_pulse();

}  // namespace gemm
