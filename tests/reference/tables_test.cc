// The small tables: formats, calibrations, what a plan leaves open, the row sample.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "reference/calibration.h"
#include "reference/error_model.h"
#include "reference/formats.h"
#include "reference/row_sample.h"
#include "tests/reference/support.h"

namespace attnfuzz {
namespace {

TEST(Formats, RoundTripOfEveryPattern) {
  for (const int32_t dtype : {ATTN_F16, ATTN_BF16})
    for (int bits = 0; bits < 65536; ++bits) {
      const uint16_t pattern = static_cast<uint16_t>(bits);
      const double value = decode(dtype, &pattern, 0);
      const uint16_t back = encode16(dtype, static_cast<float>(value));
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(decode(dtype, &back, 0)));
      } else {
        ASSERT_EQ(back, pattern);
      }
    }
}

TEST(Formats, UnitsAreThoseOfTheEncoding) {
  for (const int32_t dtype : {ATTN_F16, ATTN_BF16}) {
    const Format format = format_of(dtype);
    const auto rounded = [&](double x) {
      const uint16_t bits = encode16(dtype, static_cast<float>(x));
      return decode(dtype, &bits, 0);
    };
    EXPECT_EQ(rounded(1 + format.unit), 1) << "a tie goes to even";
    EXPECT_EQ(rounded(1 + 1.01 * format.unit), 1 + 2 * format.unit);
    EXPECT_EQ(rounded(format.max), format.max);
    EXPECT_EQ(rounded(format.overflow), INFINITY);
    EXPECT_EQ(rounded(std::nextafter(static_cast<float>(format.overflow), 0.0f)), format.max);
    EXPECT_EQ(rounded(2 * format.tiny), 2 * format.tiny) << "the smallest subnormal";
    EXPECT_EQ(rounded(format.tiny), 0);
  }
}

TEST(Calibration, CommittedTablesReadAndRoundTrip) {
  for (const Calibration& table : {documented(), executor(), h200()}) {
    std::string error = "unset";
    const Calibration back = parse_calibration(calibration_text(table), &error);
    EXPECT_EQ(error, "");
    EXPECT_EQ(calibration_text(back), calibration_text(table));
    EXPECT_GE(table.ex2, 0x1p-24) << table.name;
    EXPECT_LE(table.ex2, documented().ex2) << table.name;
  }
  EXPECT_EQ(documented().ex2, 0x1p-22);
  EXPECT_EQ(documented().tanh_approx, 0x1p-11);
  EXPECT_EQ(documented().mma_unit, 0x1p-23);
}

TEST(Calibration, BadFilesAreRefusedInWords) {
  std::string error;
  EXPECT_EQ(read_calibration("/nonexistent/x.json", &error).name, "documented");
  EXPECT_NE(error.find("cannot read"), std::string::npos);
  parse_calibration("{}", &error);
  EXPECT_NE(error, "");
  Calibration broken = documented();
  broken.mma_block = 0;
  parse_calibration(calibration_text(broken), &error);
  EXPECT_NE(error.find("mma_block"), std::string::npos);
}

TEST(ErrorModel, WhatThePlanLeavesOpenIsNamedAndLoosest) {
  Case c({.softcap = 3});
  const ErrorModel known = make_error_model(c.problem, c.plan, documented());
  EXPECT_TRUE(known.assumptions.empty());
  attn_plan nothing{};
  const ErrorModel unknown = make_error_model(c.problem, nothing, documented());
  EXPECT_EQ(unknown.assumptions.size(), 9u);
  EXPECT_GE(unknown.score_gamma, known.score_gamma);
  EXPECT_GE(unknown.eps_exp, known.eps_exp);
  EXPECT_GT(unknown.eps_exp_slope, 0);
  EXPECT_GE(unknown.eps_log, known.eps_log);
  EXPECT_GT(unknown.eps_tanh, known.eps_tanh);
  EXPECT_GT(unknown.folded_unit, 0);
  EXPECT_FALSE(unknown.fused);
  c.fill(Regime::kGaussian, 1);
  const Reference loose = evaluate(c.problem, c.tensors(), nothing, documented());
  const Reference tight = c.reference();
  for (size_t at = 0; at < tight[TensorId::kO].bound.size(); ++at)
    EXPECT_GT(loose[TensorId::kO].bound[at], tight[TensorId::kO].bound[at]);
}

// A kernel that keeps its one partial in 16 bits rounds twice, and may say so.
TEST(ErrorModel, PartialsInTheFormatOfTheInputAtOneSplit) {
  Case c({.num_splits = 1});
  const auto unit = [&](int32_t format) {
    c.plan.partial_format = format;
    return make_error_model(c.problem, c.plan, documented()).partial_unit;
  };
  EXPECT_GT(unit(ATTN_FORMAT_OF_INPUT), 0);
  EXPECT_EQ(unit(ATTN_FORMAT_F32), 0);
  EXPECT_EQ(unit(ATTN_FORMAT_UNKNOWN), 0) << "no split: no partials, unless it says so";
}

TEST(RowSample, EdgesBordersAndNoRepeats) {
  Case c({.batch = 3, .heads_q = 4, .seq_q = 200});
  const std::vector<int64_t> rows = sampled_rows(c.problem, 64, {.limit = 40, .seed = 9});
  EXPECT_EQ(rows, sampled_rows(c.problem, 64, {.limit = 40, .seed = 9}));
  EXPECT_NE(rows, sampled_rows(c.problem, 64, {.limit = 40, .seed = 10}));
  EXPECT_EQ(rows.size(), 40u);
  EXPECT_EQ(std::set<int64_t>(rows.begin(), rows.end()).size(), 40u);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  EXPECT_EQ(rows.front(), 0);
  EXPECT_EQ(rows.back(), 2399);
  std::set<int64_t> positions;
  for (const int64_t row : rows) positions.insert(row % 200);
  for (const int64_t border : {63, 64, 127, 128, 191, 192}) EXPECT_TRUE(positions.contains(border)) << border;
}

TEST(RowSample, ALimitThatIsEnoughTakesAll) {
  Case c({.seq_q = 5});
  EXPECT_EQ(sampled_rows(c.problem, 64, {.limit = 5}).size(), 5u);
  EXPECT_EQ(sampled_rows(c.problem, 64, {}).size(), 5u);
  EXPECT_EQ(sampled_rows(c.problem, 0, {.limit = 1}), std::vector<int64_t>{0});
}

}  // namespace
}  // namespace attnfuzz
