// The warps that do not multiply: they bring slices of A and B to shared memory.
#pragma once

#include "common/cuda/tensor_map.hpp"
#include "common/float4.hpp"
#include "common/ptx.hpp"
#include "steps/16_gpu_fp32_peak/ring.hpp"
#include "steps/16_gpu_fp32_peak/schedule.hpp"

namespace gemm {
namespace {

// One warpgroup of producers.
constexpr int producer_threads = 128;

// Named barriers: of the warps that multiply, of the producers, and of both for each stage
// (`stage_empty` + its number): nobody reads it any more.
enum NamedBarrier { multiplying = 1, feeding, stage_empty };

// The ring, and an mbarrier for each stage: it is full. The copy engine does not transpose, so there
// is room for the next slice of A as it lies in memory, and `arrived`: it has come. `floats_beside`:
// whatever the warps that multiply need.
template <int BM, int BN, int BK, int stages, int floats_beside>
struct FedRing : Ring<BM, BN, BK, stages> {
  alignas(128) float A[BM][BK];
  alignas(16) float beside[floats_beside];
  std::uint64_t full[stages], arrived;
};

// Arrivals that make a stage full: that of B, and those of all who transpose A.
constexpr int full_arrivals = producer_threads + 1;

// As[k][m] = A[m][k], a slice: pieces of 4 x 4, one of each thread for every 64 rows of 32 k. Eight
// lanes take pieces on a diagonal, since such are in different banks of both.
template <int BM, int BK>
__device__ __forceinline__ void transpose(const float* A, float* As, int thread) {
  static_assert(producer_threads == 128 && BM % 64 == 0 && BK % 32 == 0);
  const int lane = thread % 8, diagonal = thread / 8;
  const int m0 = diagonal / 8 * 32 + (lane + diagonal) % 8 * 4, k0 = lane * 4;
  const float* const from = A + m0 * BK + k0;
  float* const to = As + k0 * BM + m0;
#pragma unroll
  for (int m = 0; m < BM; m += 64)
#pragma unroll
    for (int k = 0; k < BK; k += 32) {
      alignas(16) float piece[4][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) copy4(piece[i], from + (m + i) * BK + k);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        alignas(16) const float column[] = {piece[0][i], piece[1][i], piece[2][i], piece[3][i]};
        copy4(to + (k + i) * BM + m, column);
      }
    }
}

// Fills the ring, as far ahead as there are free stages. The next slice of A is under way meanwhile.
template <int BM, int BN, int BK, int stages, int consumers, typename Memory>
__device__ __forceinline__ void feed(Memory& memory, const Schedule& schedule,
                                     const CUtensorMap& map_a, const CUtensorMap& map_b,
                                     int thread) {
  static_assert(stage_empty + stages <= 16, "a block has 16 barriers");
  const auto start_a = [&](const Slice& slice) {
    ptx::barrier_arrive_expecting(&memory.arrived, sizeof memory.A);
    ptx::copy_box(&memory.A[0][0], &map_a, slice.number * BK, slice.at.row * BM, &memory.arrived);
  };
  Slices slices(schedule, blockIdx.x);
  Slice slice, next;
  slices.next(slice);
  if (thread == 0) start_a(slice);
  int stage = 0, a_phase = 0;
  bool used_before = false;
  for (bool more = true; more; slice = next) {
    more = slices.next(next);
    std::uint64_t* const full = &memory.full[stage];
    if (used_before) ptx::named_barrier_sync<consumers + producer_threads>(stage_empty + stage);
    if (thread == 0) {
      ptx::barrier_arrive_expecting(full, sizeof memory.Bs[0]);
      ptx::copy_box(&memory.Bs[stage][0][0], &map_b, slice.at.col * BN, slice.number * BK, full);
    }
    ptx::barrier_wait(&memory.arrived, a_phase);
    a_phase ^= 1;
    transpose<BM, BK>(&memory.A[0][0], &memory.As[stage][0][0], thread);
    ptx::barrier_arrive(full);
    ptx::named_barrier_sync<producer_threads>(feeding);  // all of it has been read
    if (thread == 0 && more) start_a(next);
    if (++stage == stages) stage = 0, used_before = true;
  }
}

}  // namespace
}  // namespace gemm
