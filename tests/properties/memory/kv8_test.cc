// Tests K and V of 8 bits in memory: codes of one byte, and scales by batch entry, head and key.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/planted_rank.h"
#include "properties/data/fills.h"
#include "properties/data/recipe.h"
#include "reference/numbers/formats.h"
#include "tests/properties/memory/layout_support.h"

namespace attnfuzz {
namespace {

Case narrow_case(const Kv8& kv8) {
  Case c = small_case();
  c.problem.batch = 2;
  c.k.kind = c.v.kind = FillKind::kGaussian;
  set_kv8(c, kv8);
  tidy(c);
  return c;
}

TEST(Kv8Memory, NumbersAreCodesTimesScales) {
  for (const KvFormat format : {KvFormat::kE4m3, KvFormat::kE5m2}) {
    for (int form = 0; form < 8; ++form) {
      const KvScales scales = {ScaleKind::kUneven, (form & 1) != 0, (form & 2) != 0, (form & 4) != 0, 0, 3};
      Case c = narrow_case({format, scales, {ScaleKind::kApart, true, true, true, 0, 4}});
      c.layout[static_cast<size_t>(TensorId::kKScale)].row_gap = 2;
      c.layout[static_cast<size_t>(TensorId::kVScale)].order = {0, 2, 1};
      ASSERT_EQ(illegal(c), std::nullopt);
      Arena arena;
      const LaidOut laid(c, arena);
      const attn_problem& p = laid.problem();
      EXPECT_EQ(p.kv_dtype, dtype_of(format));
      EXPECT_EQ(p.features, ATTN_FEATURE_KV8);
      const attn_tensors& t = laid.tensors();
      if (p.batch > 1) EXPECT_EQ(t.k_scale.stride[0] == 0, !scales.entries);
      if (p.heads_kv > 1) EXPECT_EQ(t.k_scale.stride[1] == 0, !scales.heads);
      EXPECT_EQ(t.k_scale.stride[2] == 0, !scales.keys);
      for (const auto& [values, of] : {std::pair{TensorId::kK, &t.k_scale}, {TensorId::kV, &t.v_scale}}) {
        for (int64_t b = 0; b < p.batch; ++b) {
          for (int64_t g = 0; g < p.heads_kv; ++g) {
            for (int64_t j = 0; j < p.seq_k; ++j) {
              const auto* scale = static_cast<const float*>(of->data) + b * of->stride[0] + g * of->stride[1] +
                                  j * of->stride[2];
              const double code = decode(p.kv_dtype, element(laid, c.problem, values, b, g, j, 1), 0);
              EXPECT_EQ(code * *scale, value_at(c, values, b, g, j, 1));
            }
          }
        }
      }
    }
  }
}

// All keys of a page have its scale, other pages have others, and entries that share a page agree. Without pages, and
// with pages of other numbers, the scales stay.
TEST(Kv8Memory, ScalesByPageFollowThePages) {
  Case c = narrow_case({KvFormat::kE4m3, {.kind = ScaleKind::kUneven, .page = 5}, {}});
  c.problem.seq_k = 8;
  c.problem.key_lengths = std::vector<int64_t>(static_cast<size_t>(c.problem.batch), 8);
  c.problem.paging = Paging{.size = 3, .order = 5, .spare = 1, .shared = 1};
  tidy(c);
  ASSERT_EQ(illegal(c), std::nullopt);
  ASSERT_EQ(c.problem.kv8->k.page, 3) << "the size of the pages";
  ASSERT_GE(c.problem.batch, 2);
  const auto scale = [](const Case& of, int64_t b, int64_t j) { return kv_scale_at(of, TensorId::kKScale, b, 0, j); };
  std::set<float> all;
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t j = 0; j < 8; ++j) {
      EXPECT_EQ(scale(c, b, j), scale(c, b, j / 3 * 3));
      all.insert(scale(c, b, j));
    }
  }
  EXPECT_EQ(all.size(), 5u) << "one page of both entries, and two of each";
  EXPECT_EQ(scale(c, 0, 2), scale(c, 1, 0));
  Case other = c;
  ++other.problem.paging->order;
  EXPECT_EQ(scale(other, 1, 7), scale(c, 1, 7));
  EXPECT_FALSE(repeated(c, TensorId::kKScale)[0] || repeated(c, TensorId::kKScale)[2]) << "stored for each key";
}

TEST(Kv8Memory, ScalesBeyondTheLengthsAreNaN) {
  Case c = narrow_case({KvFormat::kE4m3, {ScaleKind::kUneven, true, true, true, 0, 1}, {}});
  c.problem.key_lengths = std::vector<int64_t>(static_cast<size_t>(c.problem.batch), 2);
  c.nan_beyond_lengths = true;
  Arena arena;
  const LaidOut laid(c, arena);
  const attn_tensor& scales = laid.tensors().k_scale;
  EXPECT_TRUE(std::isfinite(static_cast<const float*>(scales.data)[scales.stride[2]]));
  EXPECT_TRUE(std::isnan(static_cast<const float*>(scales.data)[2 * scales.stride[2]]));
  EXPECT_TRUE(std::isnan(decode(ATTN_E4M3, element(laid, c.problem, TensorId::kK, 0, 0, 2, 0), 0)));
}

TEST(Kv8Memory, PlantedValuesKeepTheirValues) {
  Case c = small_case();
  c.planted = {{TensorId::kK, 0, 0, 0, 0, 0x3e00},   // 1.5
               {TensorId::kV, 0, 0, 1, 0, 0x7e00},   // NaN
               {TensorId::kQ, 0, 0, 0, 0, 0x3e00}};
  const Case before = c;
  set_kv8(c, Kv8{KvFormat::kE4m3, {}, {}});
  EXPECT_EQ(c.planted[0].bits, 0x3cu);
  EXPECT_EQ(c.planted[1].bits, 0x7fu);
  EXPECT_EQ(c.planted[2].bits, 0x3e00u);
  set_kv8(c, Kv8{KvFormat::kE5m2, {}, {}});
  EXPECT_EQ(c.planted[0].bits, 0x3eu);
  set_kv8(c, std::nullopt);
  EXPECT_EQ(c.planted[0].bits, before.planted[0].bits);
  EXPECT_TRUE(std::isnan(decode(ATTN_F16, &c.planted[1].bits, 0)));
}

TEST(Kv8Memory, LayoutsOfScalesGoWithThem) {
  const Case plain = small_case();
  Case c = plain;
  set_kv8(c, Kv8{});
  for (const TensorId t : {TensorId::kKScale, TensorId::kVScale}) c.layout[static_cast<size_t>(t)].row_gap = 3;
  ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
  set_kv8(c, std::nullopt);
  EXPECT_EQ(c, plain);
}

TEST(Kv8Memory, CodesOfAPositionAreAllFiniteOnes) {
  for (const int32_t dtype : {ATTN_E4M3, ATTN_E5M2}) {
    std::set<int> codes;
    std::vector<uint8_t> row(300);
    fill_row({.kind = FillKind::kPosition}, dtype, 0, 0, 0, 300, row.data());
    for (const uint8_t code : row) {
      codes.insert(code);
      EXPECT_TRUE(std::isfinite(decode(dtype, &code, 0)));
    }
    EXPECT_EQ(codes.size(), dtype == ATTN_E4M3 ? 254u : 248u);
  }
}

TEST(Kv8Memory, NeedsASeparateV) {
  Case c = narrow_case({});
  c.problem.latent = true;
  EXPECT_NE(illegal(c).value_or(""), "");
  tidy(c);
  EXPECT_FALSE(c.problem.kv8.has_value());
}

}  // namespace
}  // namespace attnfuzz
