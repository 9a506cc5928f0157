// Tests the data that rows share (keys and values of a head, keys of a block), and the scores of a row.
#include "reference/rows/operands.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "reference/rows/key_block.h"
#include "reference/rows/scores.h"
#include "tests/reference/support.h"

namespace attnfuzz {
namespace {

TEST(Operands, AreReadOnceForAllRows) {
  Case c({.seq_q = 1, .seq_k = 17, .dim_qk = 3, .dim_v = 17});
  c.fill(Regime::kGaussian, 1);
  c.set_k(0, 0, 2, 1, -0.25f);
  c.set_k(0, 0, 3, 1, 0);
  for (int64_t j = 0; j < 17; ++j)
    for (int64_t t = 0; t < 3; ++t)
      if (t != 1) c.set_k(0, 0, j, t, static_cast<float>(j + 1));
  for (int64_t j = 4; j < 17; ++j) c.set_k(0, 0, j, 1, 9);
  c.set_k(0, 0, 0, 1, 7), c.set_k(0, 0, 1, 1, 7);
  for (int64_t col = 0; col < 17; ++col)
    for (int64_t j = 0; j < 17; ++j) c.set_v(0, 0, j, col, static_cast<float>(100 * j + col) / 16);
  c.set_v(0, 0, 5, 16, NAN);
  c.set_v(0, 0, 6, 0, -INFINITY);
  c.set_k(0, 0, 9, 0, NAN);
  const Operands of = load_operands(c.problem, c.tensors(), 0, 0, 0, 17, 0x1p-1);
  EXPECT_EQ(of.count, 17);
  EXPECT_EQ(of.dim_qk, 3);
  EXPECT_EQ(of.keys[(0 * 3 + 1) * kLanes + 2], -0.25);
  EXPECT_EQ(of.keys[(1 * 3 + 0) * kLanes + 0], 17) << "key 16 opens a panel";
  EXPECT_EQ(of.keys[(1 * 3 + 0) * kLanes + 1], 0) << "the rest of it is 0";
  EXPECT_EQ(of.aligned[(0 * 3 + 1) * kLanes + 2], 0.5) << "no less than `least`";
  EXPECT_EQ(of.aligned[(0 * 3 + 1) * kLanes + 3], 0) << "but 0";
  EXPECT_EQ(of.key_norm[2], 3 + 0.25 + 3);
  EXPECT_EQ(of.least_key, 0.25) << "0 is none";
  EXPECT_FALSE(of.pure_keys);
  EXPECT_EQ(of.key_purity[9], Purity::kNaN);
  EXPECT_EQ(of.key_purity[8], Purity::kFinite);
  // Values are in panels of 16 columns. Non-finite ones are listed separately, and their places hold 0.
  const Values& v = of.values;
  EXPECT_EQ(v.chunks(), 2);
  EXPECT_EQ(v.panel(0)[7 * kLanes + 3], (700 + 3) / 16.0);
  EXPECT_EQ(v.panel(1)[7 * kLanes + 0], (700 + 16) / 16.0);
  EXPECT_EQ(v.panel(1)[7 * kLanes + 1], 0);
  EXPECT_EQ(v.panel(1)[5 * kLanes + 0], 0);
  EXPECT_EQ(v.panel(0)[6 * kLanes + 0], 0);
  EXPECT_EQ(v.largest, 1616 / 16.0);
  ASSERT_EQ(v.non_finite.size(), 2u);
  EXPECT_EQ((std::array{v.non_finite[0].key, v.non_finite[0].column}), (std::array<int64_t, 2>{5, 16}));
  EXPECT_TRUE(v.non_finite[0].nan);
  EXPECT_EQ((std::array{v.non_finite[1].key, v.non_finite[1].column}), (std::array<int64_t, 2>{6, 0}));
  EXPECT_FALSE(v.non_finite[1].nan);
  // |v| as floats, scaled so that the largest is below 2^30: the largest is 101, so the scale is 2^23.
  EXPECT_EQ(v.size_scale, 0x1p23);
  ASSERT_EQ(v.sizes.size(), v.data.size());
  for (size_t at = 0; at < v.data.size(); ++at) ASSERT_EQ(v.sizes[at], std::abs(v.data[at]) * 0x1p23);
  // A part of the keys, and no key.
  const Operands part = load_operands(c.problem, c.tensors(), 0, 0, 10, 13);
  EXPECT_EQ(part.first, 10);
  EXPECT_EQ(part.count, 3);
  EXPECT_EQ(part.keys[1], 12);
  EXPECT_TRUE(part.pure_keys);
  EXPECT_TRUE(part.aligned.empty());
  EXPECT_EQ(load_operands(c.problem, c.tensors(), 0, 0, 13, 10).count, 0);
  // Operands that reuse the memory of others have none of their data.
  Operands again = of;
  load_operands(c.problem, c.tensors(), 0, 0, 10, 13, {}, &again);
  EXPECT_EQ(again.keys, part.keys);
  EXPECT_EQ(again.aligned, part.aligned);
  EXPECT_EQ(again.key_norm, part.key_norm);
  EXPECT_EQ(again.least_key, part.least_key);
  EXPECT_TRUE(again.pure_keys);
  EXPECT_EQ(again.values.data, part.values.data);
  EXPECT_EQ(again.values.sizes, part.values.sizes);
  EXPECT_EQ(again.values.largest, part.values.largest);
  EXPECT_TRUE(again.values.non_finite.empty());
  for (const auto& [columns, chunks] :
       {std::pair{1, 1}, std::pair{15, 1}, std::pair{16, 1}, std::pair{32, 2}}) {
    const double row[32] = {};
    EXPECT_EQ(make_values(row, 1, columns, 32).chunks(), chunks);
    EXPECT_EQ(make_values(row, 1, columns, 32).data.size(), static_cast<size_t>(chunks * kLanes));
  }
}

TEST(KeyBlock, HasThePanelsThatAnyRowSees) {
  ErrorModel model;
  model.tile_k = 24, model.split_tiles = 2, model.key_order = ATTN_KEYS_ASCENDING;
  // 100 keys from number 8 on; panels of 16. Row 0 sees 20..40, row 1 three keys far apart.
  std::vector<int64_t> near, far = {25, 90, 99};
  for (int64_t key = 20; key <= 40; ++key) near.push_back(key);
  KeyBlock block;
  const std::vector<std::span<const int64_t>> rows = {near, far};
  make_key_block(model, 8, 100, rows, &block);
  EXPECT_EQ(block.panels, (std::vector<int64_t>{1, 2, 5, 6}));
  EXPECT_EQ(block.positions(), 64);
  const auto expect_spans = [](const std::vector<KeySpan>& got,
                               const std::vector<std::array<int64_t, 3>>& due) {
    ASSERT_EQ(got.size(), due.size());
    for (size_t s = 0; s < due.size(); ++s)
      EXPECT_EQ((std::array{got[s].key, got[s].position, got[s].count}), due[s]) << s;
  };
  expect_spans(block.spans, {{16, 0, 32}, {80, 32, 20}});
  // Tiles of 24 end at keys 16, 40, 64, 88, counted from 8.
  expect_spans(block.tile_spans, {{16, 0, 24}, {40, 24, 8}, {80, 32, 8}, {88, 40, 12}});
  const auto expect_tiles = [&](const std::vector<std::array<int64_t, 4>>& due) {
    ASSERT_EQ(block.tiles.size(), due.size());
    for (size_t t = 0; t < due.size(); ++t) {
      const KeyTile& tile = block.tiles[t];
      EXPECT_EQ((std::array{tile.tile, static_cast<int64_t>(tile.begin), static_cast<int64_t>(tile.end),
                            static_cast<int64_t>(tile.last)}),
                due[t])
          << t;
    }
  };
  expect_tiles({{1, 0, 1, 1}, {2, 1, 2, 0}, {3, 2, 3, 1}, {4, 3, 4, 1}});
  model.key_order = ATTN_KEYS_DESCENDING;
  make_key_block(model, 8, 100, rows, &block);
  expect_tiles({{4, 3, 4, 1}, {3, 2, 3, 0}, {2, 1, 2, 1}, {1, 0, 1, 1}});
  model.key_order = ATTN_KEYS_ANY;
  make_key_block(model, 8, 100, rows, &block);
  EXPECT_TRUE(block.tiles.empty());

  // Dense rows are one piece of memory; others are found key by key.
  KeyPlaces places;
  std::vector<double> numbers(64);
  for (size_t at = 0; at < numbers.size(); ++at) numbers[at] = static_cast<double>(at);
  Buffer room, spread;
  block.place(near, &places);
  EXPECT_TRUE(places.each.empty());
  EXPECT_EQ(places.count, 21);
  EXPECT_EQ(places.of(0), 4);
  EXPECT_EQ(places.of(20), 24);
  EXPECT_EQ(places.gather(numbers.data(), &room), numbers.data() + 4);
  places.spread(numbers.data() + 1, 64, &spread);
  for (size_t at = 0; at < 64; ++at)
    EXPECT_EQ(spread[at], at >= 4 && at < 25 ? static_cast<double>(at) - 3 : 0) << at;
  block.place(far, &places);
  EXPECT_EQ(places.count, 3);
  EXPECT_EQ((std::array{places.of(0), places.of(1), places.of(2)}), (std::array<int64_t, 3>{9, 42, 51}));
  const double* gathered = places.gather(numbers.data(), &room);
  EXPECT_EQ((std::array{gathered[0], gathered[1], gathered[2]}), (std::array{9.0, 42.0, 51.0}));
  std::fill(spread.begin(), spread.end(), 5.0);
  places.spread(numbers.data() + 1, 64, &spread);
  for (size_t at = 0; at < 64; ++at) EXPECT_EQ(spread[at], at == 9 ? 1 : at == 42 ? 2 : at == 51 ? 3 : 0) << at;
}

// A row of n keys does not read keys behind the n-th.
TEST(Scores, ReadOnlyTheRowsKeys) {
  Case c({.seq_q = 1, .seq_k = 3, .dim_qk = 1, .dim_v = 1});
  c.fill(Regime::kGaussian, 1);
  c.set_k(0, 0, 2, 0, NAN);
  const Operands operands = load_operands(c.problem, c.tensors(), 0, 0, 0, 3);
  const ErrorModel model = make_error_model(c.problem, c.plan, documented());
  const int64_t keys[] = {0, 1, 2};
  const double q = 1, dot[] = {1, 2, 3}, absolute[] = {1, 2, 3}, running[] = {0, 0, 0}, bias[] = {0, 0, NAN};
  RowScores scores;
  ScoreInput input{&q, Purity::kFinite, keys, 2, bias, dot, absolute, running};
  EXPECT_EQ(row_scores(model, operands, input, &scores), ScoreState::kBounded);
  EXPECT_EQ(scores.absolute, absolute);
  EXPECT_EQ(scores.x[1], 2 * static_cast<double>(c.problem.scale));
  const double first[] = {NAN, 0}, second[] = {0, INFINITY};
  input.bias = first;
  EXPECT_EQ(row_scores(model, operands, input, &scores), ScoreState::kNaN);
  input.bias = second;
  EXPECT_EQ(row_scores(model, operands, input, &scores), ScoreState::kUnconstrained);
  input.bias = nullptr;
  EXPECT_EQ(row_scores(model, operands, input, &scores), ScoreState::kBounded);
  input.n = 3;
  EXPECT_EQ(row_scores(model, operands, input, &scores), ScoreState::kNaN);
}

}  // namespace
}  // namespace attnfuzz
