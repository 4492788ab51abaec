// Which shapes share a tile.
#pragma once

#include <array>
#include <string>

#include "common/gemm.hpp"

namespace gemm {

/// Sides of a square C. What a tile is good for is first of all a matter of how many blocks C is cut
/// into: as few as there are multiprocessors, and a smaller tile keeps more of them busy; many times
/// as many, and a larger one loads less. Below the first and above the last of these nothing changes.
inline constexpr std::array shape_classes = {256, 512, 1024, 2048, 4096};

/// The class of a shape: of `shape_classes` the one nearest, by ratio, to the side of a square with
/// as many elements as C. K does not matter, as it changes no number of blocks.
int shape_class(Shape shape);

/// "C of about 1024 x 1024"; the first class holds what is smaller, the last what is larger.
std::string class_name(int shape_class);

}  // namespace gemm
