// The answer that kernels are held against, in fp64 and by code that shares nothing with them.
#pragma once

#include "common/gemm.hpp"

namespace gemm {

/// Rows row0 .. row0 + rows of A * B and of |A| * |B| in fp64, written densely (rows x N). Operands
/// are in host memory; alpha, beta and C play no part. `magnitude` may be null.
void reference_rows(const Problem& problem, int row0, int rows, double* product, double* magnitude);

}  // namespace gemm
