// What step 16 does before its kernel for compute capability 9.0, as a multiplication of its own, so
// that it is held to the whole contract on the emulator: that kernel runs on nothing but such a GPU.
#include "steps/16_gpu_fp32_peak/pack.cuh"

namespace gemm {
namespace {

// Small, so that all of 1 to 4 columns are left apart; BM and BK are the edges of what pack does.
constexpr Tile tile{.BM = transpose_tile, .BN = few + 1, .BK = few_depth};
constexpr int threads = 64;

// Four elements of C a thread, from packed operands.
__global__ void __launch_bounds__(threads)
    multiply(int K, const float* At, std::int64_t a_pitch, const float* B, std::int64_t ldb,
             const Output output) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  const int quads = ceil_div(output.N, 4);
  const int r = at / quads, c = at % quads * 4;
  if (r >= output.M) return;
  float sums[4] = {};
  for (int k = 0; k < K; ++k) {
    const float a = At[k * a_pitch + r];
    for (int e = 0; e < 4 && c + e < output.N; ++e) sums[e] += a * B[k * ldb + c + e];
  }
  output.store4(r, c, sums);
}

Run prepare(const Problem& p) {
  Problem read = p;
  if (p.alpha == 0) read.shape.K = 0;
  const int apart = columns_apart(p.shape.N, tile.BN);
  const Packed packed = pack(read, true, apart);
  Output output = output_of(p);
  output.N -= apart;
  const std::int64_t quads = std::int64_t{p.shape.M} * ceil_div(output.N, 4);
  const Run all = in_order(
      packed.before, launch(multiply, {(quads + threads - 1) / threads, threads}, read.shape.K,
                            packed.At, packed.a_pitch, packed.B, packed.ldb, output));
  return {[all, a = packed.memory_a, b = packed.memory_b](Stream stream) { all.start(stream); },
          all.footprint};
}

Traffic traffic(Shape s) {
  const int apart = columns_apart(s.N, tile.BN);
  const std::int64_t M = s.M, N = s.N - apart, quads = ceil_div(s.N - apart, 4);
  return pack_traffic(s, true, apart) +
         Traffic{.global_loaded = 4 * M * (quads + N) * s.K, .global_stored = 4 * M * N};
}

const Register step{{.name = "16_pack",
                     .title = "What step 16 does first",
                     .device = this_device,
                     .kernels = {{"packed", prepare, traffic, tile}},
                     .whole_contract = true}};

}  // namespace
}  // namespace gemm
