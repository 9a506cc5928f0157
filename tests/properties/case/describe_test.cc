// Tests the description of a case in words.
#include <gtest/gtest.h>

#include "properties/case/words.h"
#include "tests/properties/support/random_case.h"

namespace attnfuzz {
namespace {

TEST(Describe, OneLine) {
  Case c;
  c.problem.seq_q = c.problem.seq_k = 65;
  c.problem.dim_qk = c.problem.dim_v = 64;
  c.problem.causal = true;
  EXPECT_EQ(describe(c), "B=1 H=1/1 S=65/65 D=64/64 f16 causal (top-left); Q, K, V constant; 1 call");
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string line = describe(random_case(seed));
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_EQ(line.find("  "), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace attnfuzz
