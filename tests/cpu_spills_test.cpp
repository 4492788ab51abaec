// What the compiler made of the register tiles of steps 05 and 06: the sums stay in registers where
// they fit, and are moved to the stack and back where they do not.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <string>

#include "common/simd.hpp"

namespace gemm {
namespace {

// Moves of vector registers to or from the stack, in one function.
struct Function {
  std::string name;
  int rows, vectors;
  bool ragged;
  int moves = 0;
};

// The instances of a kernel template of two numbers, and step 06's kind of tile, in assembly.
std::vector<Function> instances(const std::string& step, const std::string& kernel) {
  std::ifstream file(std::string(GEMM_ASSEMBLY) + "/" + step + ".s");
  const std::regex head("^_Z[^:]*" + kernel + "ILi(\\d+)ELi(\\d+)E(L\\w+4KindE(\\d)E)?[^:]*:.*");
  const std::regex move(".*(mm\\d+.*\\(%r[bs]p\\)|\\(%r[bs]p\\).*mm\\d+).*");
  std::vector<Function> found;
  bool inside = false;
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (std::regex_match(line, match, head)) {
      inside = true;
      found.push_back({line, std::stoi(match[1]), std::stoi(match[2]), match[4] == "1"});
    } else if (line.find(".cfi_endproc") != std::string::npos) {
      inside = false;
    } else if (inside && std::regex_match(line, move)) {
      ++found.back().moves;
    }
  }
  return found;
}

bool fits(const Function& function) {
  return function.rows * function.vectors + function.vectors + 1 <= vector_registers;
}

TEST(Spills, Step05KeepsWhatFitsInRegisters) {
  const auto functions = instances("05_cpu_register_tiling", "outer_products");
  int spilling = 0;
  for (const Function& function : functions) {
    EXPECT_EQ(function.moves > 0, !fits(function)) << function.name;
    spilling += !fits(function);
  }
  EXPECT_GT(functions.size(), 6U);
  EXPECT_EQ(spilling, 1) << "one row of the table is there to show what a spill costs";
}

TEST(Spills, Step06KeepsEveryWholeTileInRegisters) {
  const auto functions = instances("06_cpu_packed", "micro_kernel");
  for (const Function& function : functions) {
    EXPECT_TRUE(fits(function)) << function.name;
    if (!function.ragged) {
      EXPECT_EQ(function.moves, 0) << function.name;
    }
  }
  EXPECT_GT(functions.size(), 20U);
}

}  // namespace
}  // namespace gemm
