// The parts that machine.cpp puts together: loops that run at a ceiling, and questions to a GPU.
#pragma once

#include <cstdint>

#include "common/machine.hpp"

namespace gemm {

/// FLOP/s of `threads` threads that do nothing but FMAs on vector registers: the best window.
double cpu_fma_rate(int threads);

/// The same at this moment, within a millisecond or two, on OpenMP's threads: those that kernels
/// run on, so that none of them waits for a turn.
double cpu_fma_rate_now(int threads);

/// The same on threads that end with it, so that none of them spins beside what runs next.
double cpu_fma_rate_apart(int threads);

/// Bytes/s at which `threads` threads read `bytes` in all, again and again: the best pass.
double cpu_read_rate(std::int64_t bytes, int threads);

/// Defined in common/cuda, and only called where the build has a CUDA toolkit.
void describe_gpu(Machine& machine);
void measure_gpu(Machine& machine);
Pulse gpu_pulse();

}  // namespace gemm
