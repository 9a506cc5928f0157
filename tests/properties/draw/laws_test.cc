// Tests laws that hold for every legal case. RapidCheck draws the cases and shows the first one that breaks a
// law.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <cmath>

#include "properties/case/codec/codec.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/geometry.h"
#include "properties/data/recipe.h"
#include "properties/draw/generator.h"
#include "tests/properties/draw/our_kernels.h"
#include "tests/properties/support/random_case.h"

namespace attnfuzz {
namespace {

Case drawn() { return *arbitrary_case(config_of_our_kernels()); }

TEST(Laws, ACaseIsReadBackAsItWasWritten) {
  EXPECT_TRUE(rc::check([] {
    const Case c = drawn();
    const auto back = decode(encode(c));
    RC_ASSERT(std::holds_alternative<Case>(back));
    RC_ASSERT(std::get<Case>(back) == c);
  }));
}

TEST(Laws, TidyChangesNoDrawnCase) {
  EXPECT_TRUE(rc::check([] {
    const Case c = drawn();
    Case tidied = c;
    tidy(tidied);
    RC_ASSERT(tidied == c);
  }));
}

TEST(Laws, TidyOfACutCaseIsLegalAndIdempotent) {
  EXPECT_TRUE(rc::check([] {
    Case c = drawn();
    for (int64_t* size : {&c.problem.batch, &c.problem.seq_q, &c.problem.seq_k, &c.problem.dim_v})
      *size = *rc::gen::inRange<int64_t>(1, *size + 1);
    tidy(c);
    RC_PRE(!illegal(c));  // the layout may be illegal for the new sizes
    Case again = c;
    tidy(again);
    RC_ASSERT(again == c);
  }));
}

std::array<int64_t, 4> any_index(const Geometry& g) {
  std::array<int64_t, 4> index;
  for (size_t i = 0; i < 4; ++i) index[i] = *rc::gen::inRange<int64_t>(0, g.size[i]);
  return index;
}

// The distance in bytes from the lowest element of the tensor.
int64_t place_of(const Geometry& g, const std::array<int64_t, 4>& index) {
  int64_t at = g.first;
  for (size_t i = 0; i < 4; ++i) at += index[i] * g.stride[i];
  return at * g.element_bytes;
}

TEST(Laws, ElementsLieApartAndInsideTheirTensor) {
  EXPECT_TRUE(rc::check([] {
    const Case c = drawn();
    for (const TensorId t : {TensorId::kQ, TensorId::kK, TensorId::kV, TensorId::kBias, TensorId::kMask, TensorId::kO}) {
      const auto g = geometry(c, t);
      RC_ASSERT(g.has_value());
      if (!g->present || g->empty()) continue;
      const auto one = any_index(*g), other = any_index(*g);
      RC_ASSERT(place_of(*g, one) >= 0);
      RC_ASSERT(place_of(*g, one) + g->element_bytes <= g->span_bytes);
      RC_ASSERT((place_of(*g, one) == place_of(*g, other)) == (one == other));
    }
  }));
}

TEST(Laws, KeysInReverseOrderAreTheSameKeys) {
  EXPECT_TRUE(rc::check([] {
    Case c = drawn();
    RC_PRE(c.problem.seq_k > 0 && c.problem.batch > 0 && c.problem.heads_kv > 0 && c.problem.dim_qk > 0);
    c.nan_beyond_lengths = false;  // it depends on the places of keys, which change
    Case reversed = c;
    reversed.remap.key = {.multiply = -1, .add = c.problem.seq_k - 1};
    const int64_t b = *rc::gen::inRange<int64_t>(0, c.problem.batch);
    const int64_t head = *rc::gen::inRange<int64_t>(0, c.problem.heads_kv);
    const int64_t key = *rc::gen::inRange<int64_t>(0, c.problem.seq_k);
    const int64_t column = *rc::gen::inRange<int64_t>(0, c.problem.dim_qk);
    const double before = value_at(c, TensorId::kK, b, head, key, column);
    const double after = value_at(reversed, TensorId::kK, b, head, c.problem.seq_k - 1 - key, column);
    RC_ASSERT(before == after || (std::isnan(before) && std::isnan(after)));
  }));
}

}  // namespace
}  // namespace attnfuzz
