#include <gtest/gtest.h>

#include <cmath>

#include "common/model/roofline.hpp"

namespace gemm {
namespace {

TEST(Roofline, TheLowestRoofBinds) {
  const Attainable memory = attainable(1000, {{"memory", 10, 5}, {"shared", 100, 2}});
  EXPECT_EQ(memory.flops, 50);
  EXPECT_EQ(memory.bound, "memory");
  const Attainable shared = attainable(1000, {{"memory", 10, 50}, {"shared", 100, 2}});
  EXPECT_EQ(shared.flops, 200);
  EXPECT_EQ(shared.bound, "shared");
  const Attainable arithmetic = attainable(1000, {{"memory", 10, 500}, {"shared", 100, 20}});
  EXPECT_EQ(arithmetic.flops, 1000);
  EXPECT_EQ(arithmetic.bound, "arithmetic");
}

TEST(Roofline, RoofsMeetAtTheRidge) {
  EXPECT_EQ(ridge_point(1000, 10), 100);
  EXPECT_EQ(attainable(1000, {{"memory", 10, 100}}).flops, 1000);
  EXPECT_EQ(attainable(1000, {{"memory", 10, 99}}).bound, "memory");
}

TEST(Roofline, UnknownRatesBindNothing) {
  EXPECT_EQ(attainable(0, {{"memory", 10, 5}}).bound, "memory");
  EXPECT_EQ(attainable(1000, {{"shared", 0, 5}}).bound, "arithmetic");
  EXPECT_EQ(attainable(0, {}).bound, "");
}

TEST(Roofline, WhatMovesNoBytesIsNotBoundByMemory) {
  EXPECT_EQ(attainable(1000, {{"shared", 100, INFINITY}}).bound, "arithmetic");
}

}  // namespace
}  // namespace gemm
