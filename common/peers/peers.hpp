// The libraries that the course measures itself against, as kernels like any other.
#pragma once

#include <string>
#include <vector>

#include "common/gemm.hpp"

namespace gemm {

/// Peers of a device, opened at run time: nothing is needed to build, and none has to be installed.
/// `names`: of "cublas" on a GPU; of "openblas", "blis", "mkl" on a CPU, and of "mkl-bf16",
/// "onednn-bf16", "openblas-bf16" where operands are BF16; "none" for none. Empty stands for the
/// first in the operands' format that is installed, or none. The emulator has no
/// peers. Throws Refusal: bad_usage for an unknown name, unsupported for a library that was asked
/// for and cannot be opened, saying how to get it. A kernel's name carries library, version and
/// threads.
std::vector<Kernel> find_peers(Device device, const std::vector<std::string>& names, int threads,
                               Element operands = Element::fp32);

}  // namespace gemm
