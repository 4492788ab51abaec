// The roofline: what a kernel can reach between the machine's arithmetic and its memory.
// Source: Williams, Waterman and Patterson, Communications of the ACM 52(4), 2009.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace gemm {

/// One sloping roof: a level of memory, and the FLOP that a kernel does for each byte it moves
/// there (infinite when it moves none).
struct Roof {
  std::string name;
  double bytes_per_second;
  double flop_per_byte;
};

/// What can be attained, in FLOP/s, and which roof says so: the name of a level, or "arithmetic".
struct Attainable {
  double flops;
  std::string bound;
};

/// The lowest roof: min(peak, intensity * bandwidth). A rate that is not known (0) bounds nothing;
/// where none is known the result is infinite, bound by nothing ("").
inline Attainable attainable(double peak_flops, const std::vector<Roof>& roofs) {
  Attainable lowest{std::numeric_limits<double>::infinity(), ""};
  if (peak_flops > 0) lowest = {peak_flops, "arithmetic"};
  for (const Roof& roof : roofs) {
    const double flops = roof.bytes_per_second * roof.flop_per_byte;
    if (roof.bytes_per_second > 0 && flops < lowest.flops) lowest = {flops, roof.name};
  }
  return lowest;
}

/// FLOP per byte at which a kernel turns from memory-bound to compute-bound.
constexpr double ridge_point(double peak_flops, double bytes_per_second) {
  return peak_flops / bytes_per_second;
}

}  // namespace gemm
