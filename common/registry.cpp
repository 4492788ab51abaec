#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "common/gemm.hpp"

namespace gemm {
namespace {

// A function-local static, because steps register themselves before main in no fixed order.
std::vector<Step>& registry() {
  static std::vector<Step> all;
  return all;
}

auto order(const Step& step) { return std::tie(step.name, step.device); }

}  // namespace

Register::Register(Step step) {
  auto& all = registry();
  const auto at = std::lower_bound(all.begin(), all.end(), step, [](const Step& a, const Step& b) {
    return order(a) < order(b);
  });
  if (at != all.end() && order(*at) == order(step))
    throw std::logic_error("step " + step.name + " is registered twice");
  all.insert(at, std::move(step));
}

const std::vector<Step>& steps() { return registry(); }

std::string to_string(Tile t) {
  std::string name = fmt::format("{}x{}", t.BM, t.BN);
  if (t.BK) name += fmt::format("x{}", t.BK);
  if (t.WM) name += fmt::format(", {}x{}", t.WM, t.WN);
  if (t.TM * t.TN > 1) name += fmt::format(", {}x{}", t.TM, t.TN);
  if (t.blocks > 1) name += fmt::format(", {} per SM", t.blocks);
  return name;
}

}  // namespace gemm
