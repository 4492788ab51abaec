// Step 16: the peak of fp32.                                    Before: 15_gpu_async_pipeline.cu
// Idea    Nothing but FMAs in the warps that multiply: other warps feed them by the copy engine, the
//         loop over k has no barrier, and reads of shared memory cost no more than their issue slot.
//         The tiles that would leave multiprocessors idle are cut along K.
// Why     In step 15 one instruction in eight was no FMA, all warps met at every slice, and the last
//         round of tiles kept only some of the multiprocessors busy.
// Bytes   Global 43 FLOP/byte at 128 x 256, shared 2.7 at 16 x 8, as in step 15; transposing a slice of
//         A passes it through shared memory once more.
// Limit   Issue slots: 128 FMAs of a warp need 6 reads. From here on only tensor cores are faster.
// More    docs/16_gpu_fp32_peak.md            Run   build/steps/16_gpu_fp32_peak --m 4096

#include "common/launch.hpp"
#include "steps/16_gpu_fp32_peak/choice.hpp"
#include "steps/16_gpu_fp32_peak/portable.cuh"
#if !defined(GEMM_EMULATOR)
#include "steps/16_gpu_fp32_peak/hopper.cuh"
#endif

namespace gemm {
namespace {

constexpr Tile large{
    .BM = 128, .BN = 128, .BK = 8, .WM = 64, .WN = 64, .TM = 16, .TN = 8, .blocks = 2};
constexpr Tile small{
    .BM = 64, .BN = 64, .BK = 16, .WM = 32, .WN = 32, .TM = 8, .TN = 4, .blocks = 2};

template <LaneMap map, Tile T>
Kernel portable_row(const std::string& name) {
  return {name, run_portable<map, T, 4>, [](Shape s) { return portable_traffic(s, T); }, T};
}

constexpr auto run_large = run_portable<LaneMap::exclusive_or, large, 4>;

#if !defined(GEMM_EMULATOR)
constexpr Tile wide{.BM = 128, .BN = 256, .BK = 32, .WM = 64, .WN = 64, .TM = 16, .TN = 8};
constexpr Tile square{.BM = 128, .BN = 128, .BK = 64, .WM = 64, .WN = 64, .TM = 16, .TN = 8};

constexpr Variant wide_tiles{.tile = wide, .stages = 4};
constexpr Variant square_tiles{.tile = square, .stages = 3, .join = Join::in_cluster, .groups = 2};
// One technique fewer than `wide_tiles`.
constexpr Variant with_z_order{.tile = wide, .stages = 4, .map = LaneMap::z_order};
constexpr Variant uncut{.tile = wide, .stages = 4, .cut = false};
constexpr Variant unrolled{.tile = wide, .stages = 4, .unrolled = 16};
constexpr Variant two_stages{.tile = wide, .stages = 2};

template <Variant V>
Kernel hopper_row(const std::string& name) {
  const auto prepare = [](const Problem& p) {
    const auto [M, N, K] = p.shape;
    return M == 0 || N == 0 || K == 0 || p.alpha == 0 ? run_large(p) : run_hopper<V>(p);
  };
  return {name, prepare, hopper_traffic<V>, V.tile, [](Shape) { return no_hopper(); }};
}

Plan plan_here(Shape s) { return plan_for(s, multiprocessors(), no_hopper().empty()); }
#else
Plan plan_here(Shape s) { return plan_for(s, multiprocessors(), false); }
#endif

// The row that a shape is left to.
Kernel row_for(Shape s) {
  switch (plan_here(s)) {
#if !defined(GEMM_EMULATOR)
    case Plan::wide:
      return hopper_row<wide_tiles>("");
    case Plan::square:
      return hopper_row<square_tiles>("");
#endif
    case Plan::portable_small:
      return portable_row<LaneMap::exclusive_or, small>("");
    default:
      return portable_row<LaneMap::exclusive_or, large>("");
  }
}

Run prepare(const Problem& p) { return p.alpha == 0 ? run_large(p) : row_for(p.shape).prepare(p); }

Traffic traffic(Shape s) { return row_for(s).traffic(s); }

std::vector<Kernel> rows() {
  return {
    {"complete", prepare, traffic, large},
#if !defined(GEMM_EMULATOR)
        hopper_row<wide_tiles>("128x256"),
        hopper_row<square_tiles>("128x128, two blocks in a cluster"),
#endif
        portable_row<LaneMap::exclusive_or, large>("128x128, portable"),
        portable_row<LaneMap::exclusive_or, small>("64x64, portable"),
        portable_row<LaneMap::z_order, large>("128x128, portable, z-order lanes"),
#if !defined(GEMM_EMULATOR)
        hopper_row<with_z_order>("128x256 without exclusive-or lanes"),
        hopper_row<unrolled>("128x256 without a short loop"),
        hopper_row<uncut>("128x256 without cut tiles"),
        hopper_row<two_stages>("128x256 without stages: 2"),
#endif
  };
}

const Register step{{.name = "16_gpu_fp32_peak",
                     .title = "GPU, the peak of fp32",
                     .device = this_device,
                     .kernels = rows(),
                     .whole_contract = true}};

}  // namespace
}  // namespace gemm
