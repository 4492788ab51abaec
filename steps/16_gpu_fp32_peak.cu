// Step 16: the peak of fp32.                                    Before: 15_gpu_async_pipeline.cu
// Idea    draft
// More    docs/16_gpu_fp32_peak.md            Run   build/steps/16_gpu_fp32_peak --m 4096

#include "common/launch.hpp"
#include "steps/16_gpu_fp32_peak/portable.cuh"
#if !defined(GEMM_EMULATOR)
#include "steps/16_gpu_fp32_peak/few_columns.cuh"
#include "steps/16_gpu_fp32_peak/hopper.cuh"
#endif

namespace gemm {
namespace {

constexpr auto z_order = LaneMap::z_order, exclusive_or = LaneMap::exclusive_or;

constexpr Tile large{
    .BM = 128, .BN = 128, .BK = 8, .WM = 64, .WN = 64, .TM = 16, .TN = 8, .blocks = 2};
constexpr Tile small{
    .BM = 64, .BN = 64, .BK = 16, .WM = 32, .WN = 32, .TM = 8, .TN = 4, .blocks = 2};

template <LaneMap map, Tile T>
Kernel portable_row(const std::string& name) {
  return {name + to_string(T), run_portable<map, T, 4>,
          [](Shape s) { return portable_traffic(s, T); }, T};
}

#if !defined(GEMM_EMULATOR)
constexpr Tile tall{.BM = 256, .BN = 128, .BK = 32, .WM = 64, .WN = 64, .TM = 16, .TN = 8};
constexpr Tile wide{.BM = 128, .BN = 256, .BK = 32, .WM = 64, .WN = 64, .TM = 16, .TN = 8};
constexpr Tile pair{
    .BM = 128, .BN = 128, .BK = 32, .WM = 64, .WN = 64, .TM = 16, .TN = 8, .blocks = 2};

template <FeedA feed, Join join, LaneMap map, Tile T, int stages, int unrolled>
Run run_apart(const Problem& p, bool cut) {
  if (p.shape.M == 0 || p.shape.N == 0 || p.shape.K == 0 || p.alpha == 0)
    return run_portable<exclusive_or, large, 4>(p);
  const int apart = columns_apart(p.shape.N, T.BN);
  if (apart == 0) return run_hopper<feed, join, map, T, stages, unrolled>(p, cut);
  return in_order({last_columns(p, apart)},
                  run_hopper<feed, join, map, T, stages, unrolled>(without_last(p, apart), cut));
}

template <FeedA feed, Join join, LaneMap map, Tile T, int stages, int unrolled>
Kernel hopper_row(const std::string& name, bool cut = true) {
  return {name + to_string(T),
          [=](const Problem& p) { return run_apart<feed, join, map, T, stages, unrolled>(p, cut); },
          tiled_traffic(T), T, [](Shape) { return no_hopper(); }};
}
#endif

const Register step{
    {.name = "16_gpu_fp32_peak",
     .title = "GPU, the peak of fp32",
     .device = this_device,
     .kernels =
         {
#if !defined(GEMM_EMULATOR)
             hopper_row<FeedA::packed, Join::through_memory, exclusive_or, tall, 4, 8>("packed "),
             hopper_row<FeedA::on_the_way, Join::through_memory, exclusive_or, wide, 4, 8>(
                 "on the way "),
             hopper_row<FeedA::on_the_way, Join::through_memory, exclusive_or, tall, 4, 8>(
                 "on the way "),
             hopper_row<FeedA::on_the_way, Join::through_memory, exclusive_or, pair, 3, 8>(
                 "on the way "),
             hopper_row<FeedA::packed, Join::through_memory, exclusive_or, pair, 3, 8>("packed "),
             hopper_row<FeedA::on_the_way, Join::in_cluster, exclusive_or, pair, 3, 8>("cluster "),
             hopper_row<FeedA::packed, Join::through_memory, z_order, tall, 4, 8>("z-order "),
             hopper_row<FeedA::packed, Join::through_memory, exclusive_or, tall, 4, 8>("uncut ",
                                                                                       false),
             hopper_row<FeedA::packed, Join::through_memory, exclusive_or, tall, 4, 32>(
                 "unrolled "),
#endif
             portable_row<exclusive_or, large>("portable "),
             portable_row<z_order, large>("portable z-order "),
             portable_row<exclusive_or, small>("portable ")},
     .whole_contract = true}};

}  // namespace
}  // namespace gemm
