// A step of good and bad kernels: what the one main does with each of them.
#include "common/error.hpp"
#include "common/gemm.hpp"

namespace gemm {
namespace {

// C[M,N] = alpha * A[M,K] * B[K,N] + beta * C with the sum over the first `terms` of K.
void multiply(const Problem& p, int terms) {
  for (int i = 0; i < p.shape.M; ++i)
    for (int j = 0; j < p.shape.N; ++j) {
      float acc = 0;
      for (int k = 0; k < terms; ++k) acc += p.A[i * p.lda + k] * p.B[k * p.ldb + j];
      float& c = p.C[i * p.ldc + j];
      c = p.alpha * acc + (p.beta == 0 ? 0 : p.beta * c);
    }
}

Run right(const Problem& p) {
  return {[p](Stream) { multiply(p, p.shape.K); }};
}

Run forgetful(const Problem& p) {
  return {[p](Stream) { multiply(p, p.shape.K - 1); }};
}

// Faster than any other, and wrong.
Run hasty(const Problem&) {
  return {[](Stream) {}};
}

// Takes the rows of A to lie side by side.
Run dense(const Problem& problem) {
  Problem p = problem;
  p.lda = p.shape.K;
  return {[p](Stream) { multiply(p, p.shape.K); }};
}

Run failing(const Problem&) {
  return {[](Stream) { throw Refusal(Exit::device_error, "the device does not answer"); }};
}

Traffic traffic(Shape s) {
  return {.global_loaded = 4 * (std::int64_t{s.M} * s.K + std::int64_t{s.K} * s.N)};
}

std::string even(Shape s) { return s.K % 2 ? "K must be even" : ""; }

const Register step{
    {.name = "troubles",
     .title = "good and bad kernels",
     .device = this_device,
     .kernels = {{.name = "right", .prepare = right, .traffic = traffic},
                 {.name = "forgetful", .prepare = forgetful, .traffic = traffic},
                 {.name = "failing", .prepare = failing, .traffic = traffic},
                 {.name = "picky", .prepare = right, .traffic = traffic, .supports = even},
                 {.name = "dense", .prepare = dense, .traffic = traffic}},
     .whole_contract = true,
     .candidates = {{.name = "right", .prepare = right, .traffic = traffic},
                    {.name = "hasty", .prepare = hasty, .traffic = traffic},
                    {.name = "picky", .prepare = right, .traffic = traffic, .supports = even}}}};

}  // namespace
}  // namespace gemm
