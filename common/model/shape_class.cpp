#include "common/model/shape_class.hpp"

#include <cmath>

namespace gemm {

int shape_class(Shape s) {
  const auto distance = [&](int side) {
    return std::abs(std::log2(std::sqrt(double(s.M) * s.N) / side));
  };
  int nearest = shape_classes.front();
  for (const int side : shape_classes)
    if (distance(side) < distance(nearest)) nearest = side;
  return nearest;
}

std::string class_name(int shape_class) {
  const std::string side = std::to_string(shape_class), square = side + " x " + side;
  if (shape_class == shape_classes.front()) return "C of " + square + " or less";
  if (shape_class == shape_classes.back()) return "C of " + square + " or more";
  return "C of about " + square;
}

}  // namespace gemm
