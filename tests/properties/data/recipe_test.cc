// Tests recipes: how a remap moves indices, that layout writes the recipe's values, and
// that a recipe's masks agree with the oracle's.
#include "properties/data/recipe.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/geometry.h"
#include "properties/draw/generator.h"
#include "properties/memory/layout.h"
#include "reference/numbers/formats.h"
#include "reference/rows/visibility.h"
#include "tests/properties/support/second_reading.h"

namespace attnfuzz {
namespace {

TEST(Recipe, AxesMoveIndices) {
  EXPECT_EQ(source(Axis{}, 7, 100), 7);
  EXPECT_EQ(source(Axis{.multiply = -1, .add = 4, .modulus = 5}, 0, 100), 4);
  EXPECT_EQ(source(Axis{.multiply = -1, .add = 4, .modulus = 5}, 4, 100), 0);
  EXPECT_EQ(source(Axis{.multiply = -1, .add = 0, .modulus = 5}, 1, 100), 4);  // never negative
  EXPECT_EQ(source(Axis{.multiply = -1, .add = 2, .modulus = Axis::kKeyLength}, 2, 3), 0);
  EXPECT_EQ(source(Axis{.multiply = -1, .add = 2, .modulus = Axis::kKeyLength}, 3, 3),
            3);  // keys beyond the length stay
  EXPECT_EQ(source(Axis{.multiply = 1, .add = 0, .modulus = Axis::kKeyLength}, 0, 0), 0);
  EXPECT_EQ(source(Axis{.repeat = 3}, 8, 100), 2);
  EXPECT_EQ(source(Axis{.add = 5}, 0, 100), 5);
}

// A V that is stored separately keeps the values that it had as K's first columns.
TEST(Recipe, ASeparateVHasTheValuesOfTheLatentOne) {
  for (int kind = 0; kind < kFillKinds; ++kind) {
    if (depends_on_columns(static_cast<FillKind>(kind))) continue;
    Case c;
    c.problem.batch = 2, c.problem.heads_q = c.problem.heads_kv = 2, c.problem.seq_k = 5;
    c.problem.dim_qk = 7, c.problem.dim_v = 4;
    c.problem.latent = true;
    c.k = Fill{.kind = static_cast<FillKind>(kind), .seed = 5};
    c.once.k.head = true;
    c.planted = {{TensorId::kK, 1, 0, 3, 2, 0x4400}, {TensorId::kK, 1, 0, 3, 6, 0x4500}};
    tidy(c);
    Case apart = c;
    store_v_apart(apart);
    tidy(apart);
    ASSERT_EQ(illegal(c), std::nullopt);
    ASSERT_EQ(illegal(apart), std::nullopt);
    EXPECT_FALSE(is_present(c, TensorId::kV));
    EXPECT_TRUE(is_present(apart, TensorId::kV));
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t h = 0; h < 2; ++h) {
        EXPECT_EQ(matrix_at(apart, TensorId::kV, b, h), matrix_at(c, TensorId::kV, b, h)) << "kind " << kind;
        for (int64_t d = 0; d < 4; ++d)
          EXPECT_EQ(value_at(c, TensorId::kV, b, h, 3, d), value_at(c, TensorId::kK, b, h, 3, d));
      }
  }
}

TEST(Recipe, PlantedValuesGoWithTheirElements) {
  Case c;
  c.problem.batch = 3;
  c.problem.heads_q = c.problem.heads_kv = 4;
  c.problem.seq_q = c.problem.seq_k = 6;
  c.planted = {{TensorId::kV, 1, 2, 3, 0, 0x4400}};  // 4.0
  EXPECT_EQ(planted_at(c), c.planted);
  Case turned = c;
  turned.remap.key = {.multiply = -1, .add = 5, .modulus = 6};
  ASSERT_EQ(planted_at(turned).size(), 1u);
  EXPECT_EQ(planted_at(turned)[0].s, 2);
  EXPECT_EQ(value_at(turned, TensorId::kV, 1, 2, 2, 0), 4);
  EXPECT_EQ(value_at(turned, TensorId::kV, 1, 2, 3, 0), 1);
  Case repeated = c;
  repeated.problem.heads_q = repeated.problem.heads_kv = 8;
  repeated.remap.head_kv.repeat = 2;
  EXPECT_EQ(planted_at(repeated).size(), 2u);
  Case other = c;
  other.problem.batch = 1;
  other.remap.batch.add = 2;
  EXPECT_TRUE(planted_at(other).empty());
}

TEST(Recipe, SumsOfFillsAreExact) {
  Case c;
  c.problem.seq_k = 5;
  c.problem.dim_qk = c.problem.dim_v = 8;
  c.k = Fill{.kind = FillKind::kSmallInt, .seed = 1};
  c.v = Fill{.kind = FillKind::kSmallInt, .seed = 2};
  Case sum = c, u = c;
  sum.remap.k_shift = u.k = Fill{.kind = FillKind::kSmallInt, .seed = 3};
  sum.remap.v_added = u.v = Fill{.kind = FillKind::kSmallInt, .seed = 4};
  for (int64_t j = 0; j < 5; ++j) {
    for (int64_t d = 0; d < 8; ++d) {
      EXPECT_EQ(value_at(sum, TensorId::kK, 0, 0, j, d),
                value_at(c, TensorId::kK, 0, 0, j, d) + value_at(u, TensorId::kK, 0, 0, 0, d));
      EXPECT_EQ(value_at(sum, TensorId::kV, 0, 0, j, d),
                value_at(c, TensorId::kV, 0, 0, j, d) + value_at(u, TensorId::kV, 0, 0, j, d));
    }
  }
}

// A drawn case, remapped in every way at once.
Case remapped(uint64_t n) {
  GeneratorConfig config;
  config.work = 20'000;
  config.features = ATTN_FEATURE_KEY_STEP;
  Case c = draw(config, 21, n);
  const Problem& p = c.problem;
  if (n % 2 == 1) {
    c.remap.batch = {.multiply = -1, .add = p.batch, .modulus = std::max<int64_t>(p.batch, 1)};
    c.remap.head_q = {.multiply = -1, .add = p.heads_q - 1, .modulus = p.heads_q};
    c.remap.head_kv.repeat = 2;
    c.remap.key = {.multiply = -1, .add = 3, .modulus = p.key_lengths ? 0 : std::max<int64_t>(p.seq_k, 1)};
    if (p.key_lengths) c.remap.key = {.add = 2};
    c.remap.v_added = Fill{.kind = FillKind::kSmallInt, .seed = 9};
  }
  return c;
}

bool same(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b; }

TEST(Recipe, LayoutWritesItsValuesAndTheOracleHasItsMasks) {
  Arena arena;
  int64_t values = 0, pairs = 0, of_blocks = 0;
  for (uint64_t n = 0; n < 200; ++n) {
    const Case c = remapped(n);
    ASSERT_FALSE(illegal(c)) << *illegal(c);
    const Problem& p = c.problem;
    const LaidOut laid(c, arena);
    const attn_tensors& t = laid.tensors();
    for (int64_t b = 0; b < p.batch; ++b) {
      for (int64_t h = 0; h < p.heads_kv; ++h) {
        const std::vector<double> k = matrix_at(c, TensorId::kK, b, h), v = matrix_at(c, TensorId::kV, b, h);
        for (int64_t j = 0; j < p.seq_k; ++j) {
          for (int64_t d = 0; d < std::min(p.dim_qk, p.dim_v); ++d, ++values) {
            ASSERT_TRUE(same(decode(p.dtype, t.k.data, offset_of(t.k, b, h, j, d)), k[j * p.dim_qk + d])) << n;
            ASSERT_TRUE(same(decode(p.dtype, t.v.data, offset_of(t.v, b, h, j, d)), v[j * p.dim_v + d])) << n;
          }
        }
      }
      for (int64_t h = 0; h < p.heads_q; ++h) {
        for (int64_t i = 0; i < p.seq_q; ++i) {
          for (int64_t j = 0; j < p.seq_k; ++j, ++pairs) {
            const bool seen = sees_by_second_reading(c, b, h, i, j);
            ASSERT_EQ(sees(c, b, h, i, j), seen)
                << "case " << n << " at " << b << " " << h << " " << i << " " << j;
            ASSERT_EQ(sees(laid.problem(), t, b, h, i, j), seen)
                << "case " << n << " at " << b << " " << h << " " << i << " " << j;
            const KeyRange range = key_range(p, lengths_of(p, b), i);
            of_blocks += seen && has_key_blocks(p);
            ASSERT_TRUE(!seen || (range.first <= j && j < range.last)) << "case " << n << " key " << j;
          }
        }
      }
    }
  }
  EXPECT_GT(values, 10'000);
  EXPECT_GT(pairs, 10'000);
  EXPECT_GT(of_blocks, 100);
}

}  // namespace
}  // namespace attnfuzz
