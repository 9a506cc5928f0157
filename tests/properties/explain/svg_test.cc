// Tests the picture of a case: its cells show visibility and errors.
#include "properties/explain/svg.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/properties/support/flat_reference.h"

namespace attnfuzz {
namespace {

Case causal(int64_t seq) {
  Case c;
  c.problem.seq_q = c.problem.seq_k = seq;
  c.problem.dim_v = 4;
  c.problem.causal = true;
  return c;
}

attn_plan tiles_of(int64_t tile) {
  attn_plan plan = {};
  plan.tile_q = plan.tile_k = tile;
  return plan;
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(Svg, ShowsTheVisibleKeysOfEachQuery) {
  const std::string svg = svg_picture(causal(3), tiles_of(2), nullptr, nullptr);
  // One bar a query, because its visible keys are adjacent, and one in the legend.
  EXPECT_EQ(count(svg, "class=\"seen\""), 4u) << svg;
  EXPECT_EQ(count(svg, "class=\"tile\""), 2u) << svg;  // a border down, a border across
  EXPECT_EQ(count(svg, "Error of O"), 0u);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(Svg, ShowsWrongAndNonFiniteElements) {
  const Case c = causal(3);
  const Reference reference = flat_reference(c);
  Outputs outputs;
  std::vector<float>& got = outputs[TensorId::kO];
  got.assign(12, 1.0f);
  got[0] = 2;                                        // query 0, column 0
  got[4] = std::numeric_limits<float>::quiet_NaN();  // query 1, column 0
  const std::string svg = svg_picture(c, tiles_of(2), &reference, &outputs);
  EXPECT_EQ(count(svg, "class=\"bad\""), 2u) << svg;  // one in the picture, one in the legend
  EXPECT_EQ(count(svg, "class=\"nan\""), 2u) << svg;
  EXPECT_EQ(count(svg, "class=\"good\""), 4u) << svg;  // the rest of each query is one bar
}

TEST(Svg, RefusesACaseWithoutKeys) {
  Case c = causal(1);
  c.problem.seq_k = 0;
  EXPECT_THROW(svg_picture(c, tiles_of(2), nullptr, nullptr), std::invalid_argument);
}

}  // namespace
}  // namespace attnfuzz
