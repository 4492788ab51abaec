// EXPECT_TRUE(contains(text, part)), with a message that shows both.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace gemm {

inline testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << text << "\" does not say \"" << part << "\"";
}

}  // namespace gemm
