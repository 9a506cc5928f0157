// Tests probes: how records become matrices, and that the first wrong intermediate is
// found. The "kernel" here writes the values of a computation in double, in C fragments,
// with one spoiled number.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "properties/data/row_scores.h"
#include "properties/explain/probe_case.h"
#include "properties/explain/probe_check.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int kTileK = 16;
constexpr double kLog2e = 1.4426950408889634;

using Cell = std::function<float(int row, int column)>;

// Appends the records of all lanes for a matrix with this number of columns.
void record(std::vector<float>& out, int tag, int tile, int columns, const Cell& cell) {
  for (int lane = 31; lane >= 0; --lane) {  // any order is legal
    out.insert(out.end(), {static_cast<float>(tag), static_cast<float>(tile), static_cast<float>(lane),
                           static_cast<float>(columns / 2)});
    for (int n = 0; n < columns / 8; ++n) {
      for (int e = 0; e < 4; ++e) out.push_back(cell(lane / 4 + 8 * (e / 2), 8 * n + 2 * (lane % 4) + e % 2));
    }
  }
}

void record_rows(std::vector<float>& out, int tag, int tile, const std::function<float(int row)>& value) {
  for (int lane = 0; lane < 32; ++lane) {
    out.insert(out.end(), {static_cast<float>(tag), static_cast<float>(tile), static_cast<float>(lane), 2.0f});
    for (int r = 0; r < 2; ++r) out.push_back(value(lane / 4 + 8 * r));
  }
}

// Appends the records of queries first..first+15 of head `h`, as far as they exist.
void record_queries(std::vector<float>& out, const Problem& p, int h, int first) {
  for (int lane = 0; lane < 32; ++lane) {
    out.insert(out.end(), {static_cast<float>(ATTN_PROBE_ROWS), 0.0f, static_cast<float>(lane), 6.0f});
    for (int r = 0; r < 2; ++r) {
      const int i = first + lane / 4 + 8 * r;
      out.insert(out.end(), {0.0f, static_cast<float>(h), i < p.seq_q ? static_cast<float>(i) : -1.0f});
    }
  }
}

Case example() {
  Case c;
  c.problem.heads_q = 2;
  c.problem.seq_q = 20;
  c.problem.seq_k = 40;
  c.problem.dim_qk = 8;
  c.problem.dim_v = 8;
  c.problem.scale = -0.5f;
  c.problem.causal = true;
  c.problem.align = ATTN_BOTTOM_RIGHT;
  c.problem.window_left = 22;
  c.q.kind = c.k.kind = c.v.kind = FillKind::kGaussian;
  return c;
}

attn_plan plan_of() {
  attn_plan plan = {};
  plan.size = sizeof plan;
  plan.tile_q = plan.tile_k = kTileK;
  plan.num_splits = 1;
  plan.exp_class = ATTN_EXP_EXPF;
  return plan;
}

enum class ScoresAs { kProduct, kScore, kLog2 };

// The records of a right kernel for 16 queries of head 1, beginning with query `first`.
// `spoil` may change every number before it is written.
using Spoil = std::function<float(attn_probe_tag tag, int tile, int row, int column, float value)>;
std::vector<float> records(const Case& c, ScoresAs as, int first, const Spoil& spoil) {
  const attn_plan plan = plan_of();
  const Problem& p = c.problem;
  RowOracle oracle(c, plan);
  std::vector<ExactRow> exact;
  for (int r = 0; r < 16; ++r) exact.push_back(oracle.row(0, 1, std::min<int64_t>(first + r, p.seq_q - 1)));
  const std::vector<double> v = oracle.values(0, 1);
  std::vector<float> out;
  record_queries(out, p, 1, first);
  std::vector<double> m(16, -kInfinity);
  std::vector<std::vector<double>> o(16, std::vector<double>(8));
  const auto x = [&](int row, int j) { return j < p.seq_k ? exact[row].x[j] : -kInfinity; };
  for (int tile = 0; tile * kTileK < p.seq_k; ++tile) {
    record(out, ATTN_PROBE_S, tile, kTileK, [&](int row, int column) {
      const int j = tile * kTileK + column;
      double value = x(row, j);
      if (value != -kInfinity && as == ScoresAs::kProduct) value = -exact[row].product[j];
      if (value != -kInfinity && as == ScoresAs::kLog2) value *= kLog2e;
      return spoil(ATTN_PROBE_S, tile, row, column, static_cast<float>(value));
    });
    std::vector<double> before = m;
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < kTileK; ++column) m[row] = std::max(m[row], x(row, tile * kTileK + column));
    }
    const auto reference = [&](int row) { return m[row] == -kInfinity ? 0 : m[row]; };
    const auto alpha = [&](int row) { return std::exp(before[row] - reference(row)); };
    record_rows(out, ATTN_PROBE_ROW_MAX, tile, [&](int row) {
      return spoil(ATTN_PROBE_ROW_MAX, tile, row, 0, static_cast<float>(m[row] * kLog2e));
    });
    record_rows(out, ATTN_PROBE_SCALE, tile,
                [&](int row) { return spoil(ATTN_PROBE_SCALE, tile, row, 0, static_cast<float>(alpha(row))); });
    const auto weight = [&](int row, int column) {
      return std::exp(x(row, tile * kTileK + column) - reference(row));
    };
    record(out, ATTN_PROBE_P, tile, kTileK, [&](int row, int column) {
      return spoil(ATTN_PROBE_P, tile, row, column, static_cast<float>(weight(row, column)));
    });
    for (int row = 0; row < 16; ++row) {
      for (int d = 0; d < 8; ++d) {
        o[row][d] *= alpha(row);
        for (int column = 0; column < kTileK && tile * kTileK + column < p.seq_k; ++column) {
          o[row][d] += weight(row, column) * v[(tile * kTileK + column) * 8 + d];
        }
      }
    }
    record(out, ATTN_PROBE_O, tile, 8, [&](int row, int column) {
      return spoil(ATTN_PROBE_O, tile, row, column, static_cast<float>(o[row][column]));
    });
  }
  return out;
}

float as_it_is(attn_probe_tag, int, int, int, float value) { return value; }

CheckedProbe check(const Case& c, const std::vector<float>& values) {
  return check_probe(c, plan_of(), read_probe(values, values.size()));
}

TEST(ProbeCheck, RefusesAPlanThatNormalisesPFirst) {
  const Case c = example();
  const std::vector<float> values = records(c, ScoresAs::kScore, 0, as_it_is);
  attn_plan plan = plan_of();
  plan.p_order = ATTN_P_NORMALISED;
  const CheckedProbe checked = check_probe(c, plan, read_probe(values, values.size()));
  EXPECT_TRUE(checked.tiles.empty());
  ASSERT_EQ(checked.notes.size(), 1u);
  EXPECT_NE(checked.notes[0].find("(p_order)"), std::string::npos);
  plan.p_order = ATTN_P_UNNORMALISED;
  EXPECT_TRUE(check_probe(c, plan, read_probe(values, values.size())).notes.empty());
}

TEST(ProbeTiles, FragmentsBecomeMatrices) {
  std::vector<float> values;
  record(values, ATTN_PROBE_S, 3, 24,
         [](int row, int column) { return static_cast<float>(100 * row + column); });
  record_rows(values, ATTN_PROBE_SCALE, 3, [](int row) { return static_cast<float>(row); });
  record_queries(values, example().problem, 1, 16);
  const ProbedWarp warp = read_probe(values, values.size());
  EXPECT_TRUE(warp.notes.empty());
  ASSERT_EQ(warp.tiles.size(), 1u);
  EXPECT_EQ(warp.tiles[0].tile, 3);
  ASSERT_EQ(warp.tiles[0].s.columns, 24);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 24; ++column) EXPECT_EQ(warp.tiles[0].s.at(row, column), 100 * row + column);
    EXPECT_EQ((*warp.tiles[0].scale)[static_cast<size_t>(row)], row);
    EXPECT_EQ((*warp.rows)[static_cast<size_t>(row)].i, row < 4 ? 16 + row : -1);
    EXPECT_EQ((*warp.rows)[static_cast<size_t>(row)].h, 1);
  }
  EXPECT_FALSE(warp.tiles[0].row_max);
  EXPECT_EQ(warp.tiles[0].p.columns, 0);
}

TEST(ProbeTiles, TrustsNothing) {
  EXPECT_TRUE(read_probe({}, 0).tiles.empty());
  const auto noted = [](std::vector<float> values, uint64_t used) {
    return read_probe(values, used).notes.size();
  };
  EXPECT_EQ(noted({kNaN, 0, 0, 4, 1, 1, 1, 1}, 8), 1u);
  EXPECT_EQ(noted({1, 0, 32, 4, 1, 1, 1, 1}, 8), 1u);
  EXPECT_EQ(noted({1, 0, 0, 1e9f, 1, 1, 1, 1}, 8), 1u);
  EXPECT_EQ(noted({9, 0, 0, 4, 1, 1, 1, 1}, 8), 1u);
  EXPECT_EQ(noted({1, -1, 0, 4, 1, 1, 1, 1}, 8), 1u);
  // Only one lane of 32 has records.
  EXPECT_EQ(noted({1, 0, 0, 4, 1, 1, 1, 1}, 8), 1u);
  // The count of records exceeds the capacity.
  std::vector<float> values;
  record_rows(values, ATTN_PROBE_SCALE, 0, [](int) { return 1.0f; });
  EXPECT_EQ(noted(values, values.size() + 5), 1u);
  EXPECT_EQ(noted(values, values.size()), 0u);
  // Lanes of one quad disagree about their row.
  values[2 * 6 + 4] = 1.5f;
  const ProbedWarp warp = read_probe(values, values.size());
  ASSERT_EQ(warp.notes.size(), 1u);
  EXPECT_NE(warp.notes[0].find("lane 2 holds 1.5"), std::string::npos) << warp.notes[0];
}

TEST(ProbeCheck, ARightKernelIsRightInEveryUnit) {
  for (const ScoresAs as : {ScoresAs::kProduct, ScoresAs::kScore, ScoresAs::kLog2}) {
    for (const int first : {0, 16}) {
      const CheckedProbe checked = check(example(), records(example(), as, first, as_it_is));
      ASSERT_EQ(checked.tiles.size(), 3u);
      EXPECT_FALSE(checked.first_wrong) << checked.first_wrong->words;
      EXPECT_EQ(checked.score_unit, as == ScoresAs::kProduct ? "-q.k, not yet scaled"
                                    : as == ScoresAs::kScore ? "scores"
                                                             : "scores times log2 e");
      EXPECT_EQ(checked.max_unit, "scores times log2 e");
      for (const CheckedTile& tile : checked.tiles) {
        EXPECT_TRUE(std::ranges::none_of(tile.p_sum, &ExpectedValue::wrong));
      }
    }
  }
}

struct Spoiled {
  attn_probe_tag tag;
  int tile, row, column;
  float value;
  const char* words;
};

class FirstWrong : public testing::TestWithParam<Spoiled> {};

TEST_P(FirstWrong, IsFoundWhereItIs) {
  const Spoiled& s = GetParam();
  const CheckedProbe checked =
      check(example(), records(example(), ScoresAs::kProduct, 0,
                               [&](attn_probe_tag tag, int tile, int row, int column, float value) {
                                 const bool here =
                                     tag == s.tag && tile == s.tile && row == s.row && column == s.column;
                                 return here ? s.value : value;
                               }));
  ASSERT_TRUE(checked.first_wrong);
  EXPECT_EQ(checked.first_wrong->tag, s.tag);
  EXPECT_EQ(checked.first_wrong->tile, s.tile);
  EXPECT_EQ(checked.first_wrong->row, s.row);
  EXPECT_EQ(checked.first_wrong->column, s.column);
  EXPECT_EQ(checked.first_wrong->words.find(s.words), 0u) << checked.first_wrong->words;
}

INSTANTIATE_TEST_SUITE_P(
    Probe, FirstWrong,
    testing::Values(
        Spoiled{ATTN_PROBE_S, 1, 5, 3, 100, "S of tile 1 at (b=0,h=1,q=5), key 19: 100"},
        Spoiled{ATTN_PROBE_S, 2, 0, 15, 0, "S of tile 2 at (b=0,h=1,q=0), key 47: 0, expected -inf"},
        Spoiled{ATTN_PROBE_ROW_MAX, 0, 2, 0, -3, "the row maximum of tile 0"},
        Spoiled{ATTN_PROBE_SCALE, 1, 9, 0, 1.5f, "the rescale factor of tile 1"},
        Spoiled{ATTN_PROBE_SCALE, 0, 9, 0, kNaN, "the rescale factor of tile 0"},
        Spoiled{ATTN_PROBE_P, 2, 0, 14, kNaN, "P of tile 2 at (b=0,h=1,q=0), key 46: nan, expected 0"},
        Spoiled{ATTN_PROBE_P, 0, 4, 7, 1.01f, "P of tile 0"},
        Spoiled{ATTN_PROBE_O, 1, 15, 6, kInfinity, "the accumulator O of tile 1 at (b=0,h=1,q=15), column 6"}));

TEST(ProbeCheck, SmallErrorsOfFp32AreNone) {
  const CheckedProbe checked = check(
      example(), records(example(), ScoresAs::kLog2, 0,
                         [](attn_probe_tag, int, int, int, float value) { return value * (1 + 0x1p-22f); }));
  EXPECT_FALSE(checked.first_wrong) << checked.first_wrong->words;
}

TEST(ProbeCheck, WithoutRowsNothingIsCompared) {
  std::vector<float> values;
  record(values, ATTN_PROBE_S, 0, 16, [](int, int) { return kNaN; });
  const CheckedProbe checked = check(example(), values);
  EXPECT_FALSE(checked.first_wrong);
  EXPECT_TRUE(checked.tiles.empty());
  ASSERT_EQ(checked.notes.size(), 1u);
  EXPECT_NE(checked.notes[0].find("does not record which rows"), std::string::npos);
}

TEST(ProbeCheck, RowsThatTheCaseDoesNotHave) {
  Case small = example();
  std::vector<float> values = records(small, ScoresAs::kScore, 0, as_it_is);
  small.problem.heads_q = small.problem.heads_kv = 1;
  const CheckedProbe checked = check(small, values);
  ASSERT_EQ(checked.notes.size(), 1u);
  EXPECT_NE(checked.notes[0].find("which the case does not have"), std::string::npos);
}

TEST(ProbeCase, ATargetThatCannotBeProbedSaysSo) {
  FakeTarget target;
  EXPECT_EQ(probe_case(example(), target, {}, {}).why_not, "this target does not support probes");
}

}  // namespace
}  // namespace attnfuzz
