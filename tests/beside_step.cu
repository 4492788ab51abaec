// What step 16 does before and beside its kernels for compute capability 9.0, as a multiplication of
// its own, so that it is held to the whole contract on the emulator: those kernels need such a GPU.
#include "steps/16_gpu_fp32_peak/align.cuh"
#include "steps/16_gpu_fp32_peak/few_columns.cuh"

namespace gemm {
namespace {

constexpr int threads = 64;

// An element of C a thread.
__global__ void __launch_bounds__(threads)
    multiply(int K, const Rows A, const Rows B, const Output output) {
  wait_for_kernel_before();
  let_next_kernel_start();
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  const int r = at / output.N, c = at % output.N;
  if (r >= output.M) return;
  float sum = 0;
  for (int k = 0; k < K; ++k) sum += A.from[r * A.ld + k] * B.from[k * B.ld + c];
  output.finish(r, c, output.alpha * sum);
}

int columns_of(Shape s) { return std::min(s.N, few); }

Run prepare(const Problem& p) {
  Problem read = p;
  if (p.alpha == 0) read.shape.K = 0;
  const int apart = columns_of(p.shape);
  const auto [M, N, K] = Shape{p.shape.M, p.shape.N - apart, read.shape.K};
  Aligned A = aligned_rows({p.A, p.lda, M, K});
  const Aligned B = aligned_rows({p.B, p.ldb, K, N});
  Output output = output_of(p);
  output.N = N;
  const std::int64_t blocks = (std::int64_t{M} * N + threads - 1) / threads;
  // With two columns or more, A is copied by the kernel for them.
  std::vector<Run> before;
  if (apart > 1) {
    before.push_back(run_few_columns(read, apart, false, A.copy.to, A.copy.pitch));
    A.copy.blocks = 0;
  }
  before.push_back(align_rows(A, B, !before.empty()));
  const Run others = launch(multiply, {blocks, threads}, K, A.rows, B.rows, output);
  Run all = in_order(before, others);
  if (apart == 1) all = in_order({all}, run_few_columns(read, apart, true));
  return {[all, a = A.memory, b = B.memory](Stream stream) { all.start(stream); },
          others.footprint};
}

Traffic traffic(Shape s) {
  const std::int64_t M = s.M, columns = s.N - columns_of(s);
  Traffic copy_of_a = align_traffic(s.M, s.K, s.K);
  if (columns_of(s) > 1) copy_of_a.global_loaded = 0;  // it is read anyway
  return copy_of_a + align_traffic(s.K, columns, s.N) + few_columns_traffic(s, columns_of(s)) +
         Traffic{.global_loaded = 8 * M * columns * s.K, .global_stored = 4 * M * columns};
}

const Register step{{.name = "16_beside",
                     .title = "Before and beside the kernels of step 16",
                     .device = this_device,
                     .kernels = {{"copies and few columns", prepare, traffic, Tile{}}},
                     .whole_contract = true}};

}  // namespace
}  // namespace gemm
