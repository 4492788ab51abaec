#include "common/model/traffic.hpp"

namespace gemm {

Traffic untiled_traffic(Shape s) {
  const std::int64_t M = s.M, N = s.N, K = s.K;
  return {.global_loaded = 4 * 2 * M * N * K, .global_stored = 4 * M * N};
}

Traffic tiled_traffic(Shape s, Tile t) {
  const std::int64_t M = s.M, N = s.N, K = s.K;
  const std::int64_t tiles_m = ceil_div(s.M, t.BM), tiles_n = ceil_div(s.N, t.BN);
  const std::int64_t slices = tiles_m * tiles_n * ceil_div(s.K, t.BK);
  return {.global_loaded = 4 * (M * K * tiles_n + K * N * tiles_m),
          .global_stored = 4 * M * N,
          .shared_loaded = 4 * slices * t.threads() * t.BK * (t.TM + t.TN),
          .shared_stored = 4 * slices * t.BK * (t.BM + t.BN)};
}

Traffic pipelined_traffic(Shape s, Tile t, int parts) {
  Traffic traffic = tiled_traffic(s, t);
  const std::int64_t blocks = std::int64_t{parts} * ceil_div(s.M, t.BM) * ceil_div(s.N, t.BN);
  traffic.shared_stored += 4 * blocks * t.BK * (t.BM + t.BN);
  traffic.shared_loaded += 4 * blocks * t.threads() * (t.TM + t.TN);
  return traffic;
}

}  // namespace gemm
