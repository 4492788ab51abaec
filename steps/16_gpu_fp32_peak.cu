// Step 16: the peak of fp32.                                    Before: 15_gpu_async_pipeline.cu
// Idea    draft
// More    docs/16_gpu_fp32_peak.md            Run   build/steps/16_gpu_fp32_peak --m 4096

#include <memory>
#include <type_traits>

#include "common/launch.hpp"
#include "common/model/traffic.hpp"
#include "common/workspace.hpp"
#include "steps/16_gpu_fp32_peak/portable.cuh"
#if !defined(GEMM_EMULATOR)
#include "steps/16_gpu_fp32_peak/few_columns.cuh"
#include "steps/16_gpu_fp32_peak/hopper.cuh"
#endif

namespace gemm {
namespace {

int multiprocessors() {
#if defined(GEMM_EMULATOR)
  return 132;
#else
  int device = 0, count = 0;
  check(cudaGetDevice(&device), "choosing the GPU");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
        "asking the GPU for its multiprocessors");
  return count;
#endif
}

constexpr auto xor_map = LaneMap::exclusive_or, z_order = LaneMap::z_order;

bool rows_aligned(const float* x, std::int64_t ld) {
  return reinterpret_cast<std::uintptr_t>(x) % 16 == 0 && ld % 4 == 0;
}

Output output_of(const Problem& p) {
  return {p.C, p.ldc, p.shape.M, p.shape.N, p.alpha, p.beta, rows_aligned(p.C, p.ldc)};
}

template <LaneMap map, Tile T, int stages>
Run run_portable(const Problem& p, int splits) {
  const auto [M, N, K] = p.shape;
  PortableCall call{.M = M,
                    .N = N,
                    .K = p.alpha == 0 ? 0 : K,
                    .A = p.A,
                    .lda = p.lda,
                    .B = p.B,
                    .ldb = p.ldb,
                    .output = output_of(p),
                    .splits = splits};
  Grid grid = grid_of(p.shape, T);
  grid.blocks *= splits;
  grid.dynamic_shared_bytes = sizeof(Ring<transposed_pitch(T.BM), T.BN, T.BK, stages>);
  const auto kernel = rows_aligned(p.B, p.ldb) ? portable<map, T.BM, T.BN, T.BK, stages, T.WM, T.WN,
                                                          T.TM, T.TN, T.threads(), T.blocks, 4>
                                               : portable<map, T.BM, T.BN, T.BK, stages, T.WM, T.WN,
                                                          T.TM, T.TN, T.threads(), T.blocks, 1>;
  if (splits == 1) return launch(kernel, grid, call);
  const auto parts = std::make_shared<Workspace>(std::size_t(splits) * M * N);
  call.output = {parts->data(), N, M, N, 1, 0, N % 4 == 0};
  call.part_pitch = std::int64_t{M} * N;
  if (call.part_pitch % 4 != 0) call.output.aligned = false;
  const Run multiply = launch(kernel, grid, call);
  const Run sum =
      launch(sum_parts, {(std::int64_t{M} * N + sum_threads - 1) / sum_threads, sum_threads}, M, N,
             splits, static_cast<const float*>(parts->data()), p.C, p.ldc, p.alpha, p.beta);
  return {[=](Stream stream) {
            multiply.start(stream);
            sum.start(stream);
            (void)parts;
          },
          multiply.footprint};
}

int wanted_splits(Shape s, Tile t, int per_sm) {
  const std::int64_t tiles = grid_of(s, t).blocks;
  if (tiles == 0) return 1;
  const int fill = per_sm * multiprocessors() / tiles;
  const int most = s.K / (4 * t.BK);
  return std::max(1, std::min(fill, most));
}

template <LaneMap map, Tile T, int stages>
Kernel portable_row(const std::string& name, int per_sm) {
  return {name + " " + to_string(T),
          [=](const Problem& p) {
            return run_portable<map, T, stages>(p, per_sm ? wanted_splits(p.shape, T, per_sm) : 1);
          },
          tiled_traffic(T), T};
}

constexpr Tile p_large{.BM = 256, .BN = 128, .BK = 8, .WM = 64, .WN = 64, .TM = 16, .TN = 8};
constexpr Tile p_medium{
    .BM = 128, .BN = 128, .BK = 8, .WM = 64, .WN = 64, .TM = 16, .TN = 8, .blocks = 2};
constexpr Tile p_small{
    .BM = 64, .BN = 64, .BK = 16, .WM = 32, .WN = 32, .TM = 8, .TN = 4, .blocks = 3};
constexpr Tile p_small8{
    .BM = 64, .BN = 64, .BK = 16, .WM = 32, .WN = 64, .TM = 8, .TN = 8, .blocks = 4};

#if !defined(GEMM_EMULATOR)
template <FeedA feed, Join join, LaneMap map, Tile T, int stages, int unrolled>
Run run_hopper(const Problem& p, bool cut) {
  const auto [M, N, K] = p.shape;
  const auto kernel =
      hopper<feed, join, map, T.BM, T.BN, T.BK, stages, T.WM, T.WN, T.TM, T.TN, unrolled>;
  Grid grid{
      .blocks = multiprocessors(),
      .threads = T.threads() + producer_threads,
      .dynamic_shared_bytes = static_cast<int>(sizeof(FedRing<feed, T.BM, T.BN, T.BK, stages>))};
  Schedule schedule = schedule_of(p.shape, T, grid.blocks, cut);
  if (join == Join::in_cluster) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               grid.dynamic_shared_bytes),
          "x");
    for (int parts = 8; parts > 1; --parts) {
      cudaLaunchAttribute attr{};
      attr.id = cudaLaunchAttributeClusterDimension;
      attr.val.clusterDim = {unsigned(parts), 1, 1};
      cudaLaunchConfig_t c{};
      c.gridDim = unsigned(schedule.tiles() * parts);
      c.blockDim = grid.threads;
      c.dynamicSmemBytes = grid.dynamic_shared_bytes;
      c.attrs = &attr;
      c.numAttrs = 1;
      int n = 0;
      check(cudaOccupancyMaxActiveClusters(&n, kernel, &c), "y");
      if (getenv("SHOW")) printf("parts %d: %d clusters\n", parts, n);
      if (n >= schedule.tiles() && parts <= schedule.slices) {
        grid.blocks = schedule.tiles() * parts;
        grid.cluster = parts;
        schedule.whole = 0;
        schedule.blocks = grid.blocks;
        break;
      }
    }
    if (grid.cluster == 1) throw Refusal(Exit::unsupported, "no cluster");
  }
  HopperCall call{.M = M,
                  .N = N,
                  .K = K,
                  .A = p.A,
                  .lda = p.lda,
                  .output = output_of(p),
                  .schedule = schedule,
                  .sums = nullptr,
                  .done = nullptr};
  std::vector<Run> before;
  std::vector<std::shared_ptr<Workspace>> memory;
  const auto room = [&](std::size_t floats) {
    return memory.emplace_back(std::make_shared<Workspace>(floats))->data();
  };
  CUtensorMap map_a{};
  if constexpr (feed == FeedA::packed) {
    float* const At = room(std::size_t(K) * packed_pitch(M));
    before.push_back(transposing(M, K, p.A, p.lda, At));
    map_a = tensor_map(At, K, M, packed_pitch(M), T.BK, T.BM);
  }
  const float* B = p.B;
  std::int64_t ldb = p.ldb;
  if (!rows_aligned(B, ldb)) {
    float* const Bp = room(std::size_t(K) * packed_pitch(N));
    before.push_back(widening(K, N, B, ldb, Bp));
    B = Bp, ldb = packed_pitch(N);
  }
  const CUtensorMap map_b = tensor_map(B, K, N, ldb, T.BK, T.BN);
  if (join == Join::through_memory && schedule.whole < schedule.tiles()) {
    call.sums = room(std::size_t(schedule.blocks) * T.BM * T.BN);
    call.done = reinterpret_cast<unsigned*>(room(schedule.blocks));
    check(cudaMemset(call.done, 0, schedule.blocks * sizeof(unsigned)), "clearing flags");
  }
  if (schedule.whole == schedule.tiles())
    grid.blocks = std::min<std::int64_t>(grid.blocks, schedule.tiles());
  before.push_back(launch(kernel, grid, map_a, map_b, call));
  return {[before, memory](Stream stream) {
            for (const Run& run : before) run.start(stream);
          },
          before.back().footprint};
}

template <FeedA feed, Join join, LaneMap map, Tile T, int stages, int unrolled>
Run run_peeled(const Problem& p) {
  const int rest = p.shape.N % T.BN;
  if (rest == 0 || rest > few || rest == p.shape.N) throw Refusal(Exit::unsupported, "no few columns");
  Problem most = p;
  most.shape.N -= rest;
  const Run main = run_hopper<feed, join, map, T, stages, unrolled>(most, true);
  Output output = output_of(p);
  output.C += most.shape.N; output.N = rest; output.aligned = false;
  const Run last = launch(few_columns, {ceil_div(p.shape.M, few_rows_of_block), few_threads}, p.shape.M, rest, p.shape.K, p.A, p.lda,
                          p.B + most.shape.N, p.ldb, output);
  return {[=](Stream stream) { last.start(stream); main.start(stream); }, main.footprint};
}

template <FeedA feed, Join join, LaneMap map, Tile T, int stages, int unrolled>
Kernel peeled_row(const std::string& name) {
  return {name + " " + to_string(T), run_peeled<feed, join, map, T, stages, unrolled>, tiled_traffic(T), T};
}

template <FeedA feed, Join join, LaneMap map, Tile T, int stages, int unrolled>
Kernel hopper_row(const std::string& name, bool cut = true) {
  return {
      name + " " + to_string(T),
      [=](const Problem& p) { return run_hopper<feed, join, map, T, stages, unrolled>(p, cut); },
      tiled_traffic(T), T};
}

constexpr Tile tall{.BM = 256, .BN = 128, .BK = 32, .WM = 64, .WN = 64, .TM = 16, .TN = 8};
constexpr Tile wide{.BM = 128, .BN = 256, .BK = 32, .WM = 64, .WN = 64, .TM = 16, .TN = 8};
#endif

const Register step{
    {.name = "16_gpu_fp32_peak",
     .title = "GPU, the peak of fp32",
     .device = this_device,
     .kernels =
         {
#if !defined(GEMM_EMULATOR)
             hopper_row<FeedA::packed, Join::through_memory, xor_map, tall, 4, 8>("packed"),
             hopper_row<FeedA::packed, Join::through_memory, xor_map, wide, 4, 8>("packed"),
             hopper_row<FeedA::on_the_way, Join::through_memory, xor_map, wide, 4, 8>("on the way"),
             hopper_row<FeedA::on_the_way, Join::in_cluster, xor_map, wide, 4, 8>("cluster"),
             hopper_row<FeedA::on_the_way, Join::through_memory, xor_map, tall, 4, 8>("on the way"),
             hopper_row<FeedA::on_the_way, Join::in_cluster, xor_map, tall, 4, 8>("cluster"),
             hopper_row<FeedA::packed, Join::in_cluster, xor_map, wide, 4, 8>("cluster packed"),
             hopper_row<FeedA::packed, Join::through_memory, z_order, tall, 4, 8>("z-order"),
             hopper_row<FeedA::packed, Join::through_memory, xor_map, tall, 4, 8>("uncut", false),
             hopper_row<FeedA::packed, Join::through_memory, xor_map, tall, 4, 32>("unrolled"),
#endif
             portable_row<xor_map, p_large, 3>("portable", 0),
             portable_row<xor_map, p_large, 4>("portable 4", 0),
             portable_row<xor_map, p_medium, 4>("portable", 0),
             portable_row<xor_map, p_medium, 4>("split 2", 2),
             portable_row<xor_map, p_small, 4>("split 0", 0),
             portable_row<xor_map, p_small, 4>("split 2", 2),
             portable_row<xor_map, p_small8, 3>("split 4", 4)},
     .whole_contract = true}};

}  // namespace
}  // namespace gemm
