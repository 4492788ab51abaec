// Kernels that the harness must reject: each is the same honest kernel with one thing wrong, and
// the one with nothing wrong must pass.
#include <cmath>
#include <cstring>

#include "common/launch.hpp"

namespace gemm {
namespace {

constexpr int tile = 32, threads = tile * tile;

enum class Fault {
  none,
  missing_barrier,
  dropped_last_k,
  transposed_b,
  unwritten_row,
  nan_element,
  empty,
  too_many_threads,
  ignored_lda,
  ignored_ldb,
  ignored_ldc,
  ignored_beta,
  reads_c_at_beta_zero,
  silent_tf32,
  wrote_outside_c,
  wrote_into_a,
};

// Keeps the 10 mantissa bits of TF32.
__device__ float round_to_tf32(float x) {
  unsigned bits;
  memcpy(&bits, &x, sizeof x);
  bits = (bits + 0x1000) & 0xFFFFE000;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// C[M,N] = alpha * A[M,K] * B[K,N] + beta * C, one block per tile x tile elements of C.
template <int fault>
__global__ void __launch_bounds__(threads)
    broken(int M, int N, int K, const float* A, int lda, const float* B, int ldb, float* C, int ldc,
           float alpha, float beta) {
  constexpr Fault F = Fault(fault);
  if constexpr (F == Fault::empty) return;
  if constexpr (F == Fault::ignored_lda) lda = K;
  if constexpr (F == Fault::ignored_ldb) ldb = N;
  if constexpr (F == Fault::ignored_ldc) ldc = N;
  if constexpr (F == Fault::dropped_last_k) --K;

  __shared__ float As[tile][tile];
  __shared__ float Bs[tile][tile];
  const int tiles_n = ceil_div(N, tile);
  const int tr = threadIdx.x / tile, tc = threadIdx.x % tile;
  const int r = blockIdx.x / tiles_n * tile + tr, c = blockIdx.x % tiles_n * tile + tc;

  float acc = 0;
  for (int k0 = 0; k0 < K; k0 += tile) {
    const bool transposed = F == Fault::transposed_b;
    const bool inside = k0 + tr < K && c < N;
    float a = r < M && k0 + tc < K ? A[r * lda + k0 + tc] : 0.0f;
    float b = inside ? B[transposed ? c * ldb + k0 + tr : (k0 + tr) * ldb + c] : 0.0f;
    if constexpr (F == Fault::silent_tf32) {
      a = round_to_tf32(a);
      b = round_to_tf32(b);
    }
    As[tr][tc] = a;
    Bs[tr][tc] = b;
    if constexpr (F != Fault::missing_barrier) __syncthreads();
    for (int k = 0; k < tile; ++k) acc += As[tr][k] * Bs[k][tc];
    __syncthreads();
  }

  if constexpr (F == Fault::wrote_outside_c)
    if (r == M && c < N) C[r * ldc + c] = acc;
  if constexpr (F == Fault::wrote_into_a)
    if (r == 1 && c == 2) const_cast<float*>(A)[r * lda + c] = 7;
  if (r >= M || c >= N) return;
  if constexpr (F == Fault::unwritten_row)
    if (r == M - 1) return;
  if constexpr (F == Fault::nan_element)
    if (r == 3 && c == 5) acc = NAN;
  acc *= alpha;
  if constexpr (F == Fault::reads_c_at_beta_zero) {
    acc += beta * C[r * ldc + c];
  } else if constexpr (F != Fault::ignored_beta) {
    if (beta != 0) acc += beta * C[r * ldc + c];
  }
  C[r * ldc + c] = acc;
}

template <Fault F>
Kernel row(const char* name) {
  return {.name = name,
          .prepare =
              [](const Problem& p) {
                const auto [M, N, K] = p.shape;
                Grid grid = grid_of(p.shape, {.BM = tile, .BN = tile});
                if (F == Fault::too_many_threads) grid.threads *= 2;
                return launch(broken<int(F)>, grid, M, N, K, p.A, int(p.lda), p.B, int(p.ldb), p.C,
                              int(p.ldc), p.alpha, p.beta);
              },
          .traffic = [](Shape) { return Traffic{}; }};
}

const Register step{
    {.name = "broken",
     .title = "kernels that must be rejected",
     .device = this_device,
     .kernels = {
         row<Fault::none>("none"), row<Fault::missing_barrier>("missing barrier"),
         row<Fault::dropped_last_k>("dropped last k"), row<Fault::transposed_b>("transposed B"),
         row<Fault::unwritten_row>("unwritten row"), row<Fault::nan_element>("NaN element"),
         row<Fault::empty>("empty kernel"), row<Fault::too_many_threads>("too many threads"),
         row<Fault::ignored_lda>("ignored lda"), row<Fault::ignored_ldb>("ignored ldb"),
         row<Fault::ignored_ldc>("ignored ldc"), row<Fault::ignored_beta>("ignored beta"),
         row<Fault::reads_c_at_beta_zero>("reads C at beta zero"),
         row<Fault::silent_tf32>("silent TF32"), row<Fault::wrote_outside_c>("wrote outside C"),
         row<Fault::wrote_into_a>("wrote into A")}}};

}  // namespace
}  // namespace gemm
