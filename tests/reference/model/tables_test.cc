// Tests small tables: formats, calibrations, error models of plans with open fields, and the sample of rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "reference/call/row_sample.h"
#include "reference/model/arithmetic_table.h"
#include "reference/model/calibration.h"
#include "reference/model/device_arithmetic.h"
#include "reference/model/error_model.h"
#include "reference/numbers/formats.h"
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
  for (const Calibration& table : {documented(), executor(), h200(), device_table("NVIDIA H100 80GB HBM3, sm_90"), arithmetic_table(ATTN_ARITHMETIC_A100),
                                   arithmetic_table(ATTN_ARITHMETIC_L40S)}) {
    std::string error = "unset";
    const Calibration back = parse_calibration(calibration_text(table), &error);
    EXPECT_EQ(error, "");
    EXPECT_EQ(calibration_text(back), calibration_text(table));
    EXPECT_EQ(back.name, table.name);
    EXPECT_EQ(back.device, table.device);
    EXPECT_EQ(back.origin, table.origin);
    EXPECT_EQ(back.measured, table.measured);
    EXPECT_EQ(back.mma_product, table.mma_product);
    EXPECT_EQ(back.mma_sum, table.mma_sum);
    EXPECT_EQ(back.mma_least_f16, table.mma_least_f16);
    EXPECT_EQ(back.arithmetic, table.arithmetic);
    EXPECT_GE(table.ex2, 0x1p-24) << table.name;
    EXPECT_LE(table.ex2, documented().ex2) << table.name;
  }
  for (int32_t arithmetic = 0; arithmetic < std::ssize(kArithmeticNames); ++arithmetic) {
    const Calibration& table = arithmetic_table(arithmetic);
    EXPECT_EQ(table.arithmetic, arithmetic);
    EXPECT_EQ(table.measured, arithmetic == ATTN_ARITHMETIC_ANY || is_proven(arithmetic)) << table.name;
  }
  EXPECT_EQ(documented().ex2, 0x1p-22);
  EXPECT_EQ(documented().tanh_approx, 0x1p-11);
  EXPECT_EQ(documented().mma_unit, 0x1p-23);
}

// A case in a GPU's arithmetic has that GPU's table; a table that a user chose, or that limits plans, stays.
TEST(Calibration, ATableGoesWithTheArithmeticOfACase) {
  EXPECT_EQ(table_for(ATTN_ARITHMETIC_H200, executor()).name, h200().name);
  EXPECT_EQ(table_for(ATTN_ARITHMETIC_ANY, h200()).name, executor().name);
  EXPECT_EQ(table_for(ATTN_ARITHMETIC_H200, documented()).name, "documented");
  Calibration limited = executor();
  limited.error_cap.emplace();
  EXPECT_EQ(&table_for(ATTN_ARITHMETIC_H200, limited), &limited);
}

// A measured device has its own table. Any other device has the table of its arithmetic, if that is proven.
TEST(Calibration, ATableGoesWithADevice) {
  EXPECT_EQ(device_table("NVIDIA H200, sm_90").name, "h200");
  const Calibration& h100 = device_table("NVIDIA H100 80GB HBM3, sm_90");
  EXPECT_EQ(h100.name, "h100");
  EXPECT_TRUE(h100.measured);
  EXPECT_EQ(h100.arithmetic, ATTN_ARITHMETIC_H200);
  EXPECT_EQ(device_table("NVIDIA H100 PCIe, sm_90").name, "h200");
  EXPECT_EQ(device_table("NVIDIA A100-SXM4-80GB, sm_80").name, "documented");
  EXPECT_EQ(device_table("").name, "documented");
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
  std::string text = calibration_text(h200());
  text.replace(text.find("device:h200"), 11, "device:h300");
  parse_calibration(text, &error);
  EXPECT_NE(error.find("arithmetic 'device:h300' is not known"), std::string::npos) << error;
}

TEST(Calibration, FiguresAreMultiplesOfTheUnitAndMayBeLeftOut) {
  std::string error;
  const std::string text = calibration_text(documented());
  const auto with = [&](const std::string& key, const std::string& value) {
    std::string changed = text;
    const size_t at = changed.find("\"" + key + "\": ") + key.size() + 4;
    changed.replace(at, changed.find_first_of(",\n", at) - at, value);
    return parse_calibration(changed, &error);
  };
  const auto without = [&](const std::string& key) {
    std::string changed = text;
    const size_t at = changed.find("\"" + key + "\": ");
    changed.replace(at, key.size() + 2, "\"x\"");
    return parse_calibration(changed, &error);
  };
  EXPECT_EQ(with("ex2_approx", "3").ex2, 3 * 0x1p-24);
  EXPECT_EQ(with("mma_product", "0.5").mma_product, 0.5 * 0x1p-24);
  EXPECT_EQ(with("mma_sum", "0").mma_sum, 0);
  EXPECT_EQ(error, "");
  EXPECT_EQ(with("expf", "0").expf, 0);
  EXPECT_EQ(error, "");
  // A file may give mma_unit alone: the figures that it leaves out follow from it.
  EXPECT_EQ(without("mma_product").mma_product, documented().mma_unit);
  EXPECT_EQ(without("mma_sum").mma_sum, 2 * documented().mma_unit);
  EXPECT_EQ(without("mma_least_f16").mma_least_f16, 0x1p-14);
  EXPECT_EQ(error, "");
  EXPECT_EQ(with("mma_block", "1").mma_block, 1);
  EXPECT_EQ(with("mma_least_f16", "0").mma_least_f16, 0);
  EXPECT_EQ(with("mma_least_f16", "1").mma_least_f16, 1);
  EXPECT_EQ(error, "");
  const std::pair<const char*, const char*> bad[] = {
      {"lg2_approx", "-1"}, {"lg2_approx", "1e999"}, {"mma_product", "-1"},     {"mma_sum", "1e999"},
      {"mma_block", "0"},   {"mma_least_f16", "-1"}, {"mma_least_f16", "1.01"}, {"unit", "\"2^-23\""}};
  for (const auto& [key, value] : bad) {
    EXPECT_EQ(with(key, value).name, "documented");
    EXPECT_NE(error, "") << key << " " << value;
  }
  without("mma_unit");
  EXPECT_NE(error, "");
  EXPECT_EQ(h200().ex2, 2.4469 * 0x1p-24);
  EXPECT_TRUE(h200().measured);
  EXPECT_FALSE(documented().measured);
}

TEST(Formats, ArraysAreReadByIndexAndStride) {
  const float floats[] = {1, 2, 3, 4, 5, 6, 7};
  double out[3];
  decode_strided(ATTN_F32, floats, 1, 1, 3, out);
  EXPECT_EQ((std::array{out[0], out[1], out[2]}), (std::array{2.0, 3.0, 4.0}));
  decode_strided(ATTN_F32, floats, 6, -2, 3, out);
  EXPECT_EQ((std::array{out[0], out[1], out[2]}), (std::array{7.0, 5.0, 3.0}));
  EXPECT_EQ(decode(ATTN_F32, floats, 3), 4);
  const Format format = format_of(ATTN_F32);
  EXPECT_EQ(format.unit, 0x1p-24);
  EXPECT_EQ(format.tiny, 0x1p-150);
  EXPECT_EQ(format.max, std::numeric_limits<float>::max());
  EXPECT_EQ(format.overflow, 0x1p128 - 0x1p103);
}

TEST(ErrorModel, UndeclaredFieldsAreNamedAndLoosest) {
  Case c({.softcap = 3});
  const ErrorModel known = make_error_model(c.problem, c.plan, documented());
  EXPECT_TRUE(known.assumptions.empty());
  c.plan.tile_k = 1;
  EXPECT_TRUE(make_error_model(c.problem, c.plan, documented()).assumptions.empty());
  c.plan.tile_k = 16;
  attn_plan nothing{};
  const ErrorModel unknown = make_error_model(c.problem, nothing, documented());
  EXPECT_EQ(unknown.assumptions.size(), 10u);
  EXPECT_EQ(unknown.p_order, ATTN_P_ANY);
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

TEST(ErrorModel, DeclarationsOfTilesHoldIfTheTilesOfASplitAreKnown) {
  Case c(Shape{});
  c.plan.num_splits = 2;
  c.plan.split_tiles = 0;
  c.plan.key_order = ATTN_KEYS_ASCENDING;
  ErrorModel model = make_error_model(c.problem, c.plan, documented());
  EXPECT_EQ(model.split_tiles, 0);
  EXPECT_EQ(model.key_order, ATTN_KEYS_ANY);
  c.plan.split_tiles = 1;
  model = make_error_model(c.problem, c.plan, documented());
  EXPECT_EQ(model.split_tiles, 1);
  EXPECT_EQ(model.key_order, ATTN_KEYS_ASCENDING);
}

// A kernel with one split may keep its partial in 16 bits. It then rounds twice, and may declare that.
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

TEST(ErrorModel, OfInputsInFp32) {
  Case c({.dim_qk = 64});
  c.problem.dtype = ATTN_F32;
  c.plan.accumulator = ATTN_ACC_UNKNOWN;
  const auto model = [&] { return make_error_model(c.problem, c.plan, documented()); };
  ErrorModel m = model();
  EXPECT_FALSE(m.tensor_cores);
  EXPECT_EQ(m.assumptions,
            (std::vector<Assumption>{{Assumption::Part::kAccumulator, "FFMA for inputs in fp32"}}));
  EXPECT_EQ(m.score_gamma, gamma(64, kU));
  EXPECT_EQ(m.flushed_factor, 0x1p-126);
  // A plan that converts Q and K uses tensor cores.
  c.plan.qk_format = ATTN_FORMAT_TF32, c.plan.mma_block = 0;
  m = model();
  EXPECT_TRUE(m.tensor_cores);
  EXPECT_EQ(m.mma_block, 4);
  EXPECT_EQ(m.assumptions, (std::vector<Assumption>{{Assumption::Part::kAccumulator, "tensor cores"},
                                                    {Assumption::Part::kMmaBlock, "4"}}));
  EXPECT_EQ(m.factor_unit, 0x1p-11);
  EXPECT_EQ(m.factor_overflow, 0x1p128 - 0x1p116);
  c.plan.mma_block = 1, c.plan.accumulator = ATTN_ACC_TENSOR;
  EXPECT_TRUE(model().assumptions.empty());
  EXPECT_EQ(model().mma_block, 1);
  c.plan.mma_block = 16;
  EXPECT_EQ(model().mma_block, 4) << "a block of 32-bit factors has at most 4 products";
  c.plan.conversion = ATTN_CONVERT_FAITHFUL;
  EXPECT_EQ(model().factor_overflow, 0x1p128 - 0x1p117) << "one step above the largest number";
  EXPECT_EQ(model().factor_unit, 0x1p-10);
  c.plan.accumulator = ATTN_ACC_FFMA;
  EXPECT_FALSE(model().tensor_cores);
}

TEST(ErrorModel, FormatsAndTheirOverflow) {
  Case c({.num_splits = 2});
  c.plan.v_format = ATTN_FORMAT_E5M2;
  const auto model = [&] { return make_error_model(c.problem, c.plan, documented()); };
  EXPECT_EQ(model().v_unit, 0x1p-3);
  EXPECT_EQ(model().v_overflow, 61440);
  c.plan.v_scale = 4;
  EXPECT_EQ(model().v_unit, 0x1p-3 + 2 * kU);
  EXPECT_EQ(model().v_overflow, 61440 / 4);
  EXPECT_EQ(model().v_tiny, 0x1p-17 / 4);
  EXPECT_EQ(model().flushed_factor, 0) << "fp16's subnormals are normal numbers in fp32";
  // Partials of splits, and the assumptions about them.
  const size_t said = model().assumptions.size();
  c.plan.partial_format = ATTN_FORMAT_OF_INPUT;
  EXPECT_EQ(model().assumptions.size(), said);
  EXPECT_EQ(model().partial_overflow, 65520);
  c.plan.partial_format = ATTN_FORMAT_UNKNOWN;
  EXPECT_EQ(model().assumptions.size(), said + 1);
  EXPECT_EQ(model().partial_unit, 0x1p-11);
  const ErrorModel alone = partial_error_model(c.problem, c.plan, documented());
  EXPECT_EQ(alone.overflow, 0x1p128 - 0x1p103);
  EXPECT_EQ(alone.o_unit, kU);
  EXPECT_EQ(alone.o_tiny, kFlush);
  EXPECT_EQ(alone.splits, 1);
  EXPECT_EQ(alone.merge_steps, 0);
  EXPECT_EQ((std::array{alone.partial_unit, alone.partial_tiny, alone.partial_overflow}),
            (std::array{0.0, 0.0, 0.0}));
  c.plan.partial_format = ATTN_FORMAT_OF_INPUT;
  EXPECT_EQ(partial_error_model(c.problem, c.plan, documented()).overflow, 65520);
  // A scale of P moves both its underflow and its overflow.
  c.plan.p_format = ATTN_FORMAT_E4M3, c.plan.p_scale = 0.5f;
  EXPECT_EQ(model().p_unit, 0x1p-4 + kU);
  EXPECT_EQ(model().p_tiny, 0x1p-9);
  EXPECT_EQ(model().p_overflow, 928);
  EXPECT_EQ(model().product_unit, 0x1p-13);
  EXPECT_EQ(model().sum_unit, 0x1p-12);
}

// P and V have a 16-bit format that differs from the inputs'.
TEST(ErrorModel, OtherFormatsOfPAndV) {
  for (const int32_t dtype : {ATTN_F16, ATTN_BF16, ATTN_F32}) {
    for (const int32_t p : {ATTN_F16, ATTN_BF16}) {
      Case c({.dtype = dtype == ATTN_F32 ? ATTN_F16 : dtype});
      c.problem.dtype = dtype;
      c.plan.p_format = c.plan.v_format = p == ATTN_F16 ? ATTN_FORMAT_F16 : ATTN_FORMAT_BF16;
      c.plan.max_rule = ATTN_MAX_WHOLE;
      const ErrorModel m = make_error_model(c.problem, c.plan, h200());
      const Format format = format_of(p);
      EXPECT_EQ((std::array{m.p_unit, m.p_tiny, m.p_overflow}),
                (std::array{format.unit, format.tiny, format.overflow}));
      EXPECT_EQ((std::array{m.v_unit, m.v_tiny, m.v_overflow}),
                (std::array{format.unit, format.tiny, format.overflow}));
      EXPECT_EQ(m.p_predicted, p);
      EXPECT_EQ(m.o_unit, format_of(dtype).unit) << "O is still of the inputs' format";
      // A tensor core aligns fp16's subnormals as if they were normal: those of P and V too.
      EXPECT_EQ(m.least_value, dtype == ATTN_F16 || p == ATTN_F16 ? 0x1p-14 : 0);
      EXPECT_EQ(m.least_factor, dtype == ATTN_F16 ? 0x1p-14 : 0);
    }
  }
}

// A replay must judge the rows that the first run judged, so a seed's rows never change.
TEST(RowSample, IsTheSameForEver) {
  Case c({.batch = 3, .heads_q = 4, .seq_q = 200});
  const auto rows = [&](int64_t tile, int64_t limit, uint64_t seed) {
    return sampled_rows(c.problem, {}, tile, {.limit = limit, .seed = seed});
  };
  using Rows = std::vector<int64_t>;
  EXPECT_EQ(rows(64, 24, 9), (Rows{0,    63,   64,   263,  264,  572,  665,  863,  864,  1194, 1312, 1341,
                                   1391, 1392, 1417, 1497, 1683, 1937, 2021, 2119, 2127, 2128, 2388, 2399}));
  EXPECT_EQ(rows(100, 12, 3), (Rows{0, 47, 1270, 1272, 1735, 1899, 1900, 1999, 2042, 2166, 2322, 2399}));
  EXPECT_EQ(rows(0, 10, 1), (Rows{0, 65, 645, 990, 1835, 2048, 2119, 2133, 2361, 2399}));
  EXPECT_EQ(rows(150, 9, 4), (Rows{0, 414, 447, 1182, 1345, 2041, 2149, 2150, 2399}));
  EXPECT_EQ(rows(200, 9, 4), (Rows{0, 414, 447, 999, 1182, 1345, 2041, 2199, 2399}));
  EXPECT_EQ(rows(20, 60, 7),
            (Rows{0,    7,    18,   19,   20,   30,   39,   40,   72,   135,  207,  296,  368,  619,  620,
                  639,  651,  679,  680,  801,  819,  820,  846,  879,  880,  928,  959,  960,  1079, 1080,
                  1119, 1120, 1259, 1260, 1269, 1363, 1379, 1380, 1432, 1479, 1480, 1531, 1565, 1580, 1602,
                  1633, 1705, 1730, 1750, 1778, 1866, 1899, 1900, 2059, 2106, 2342, 2358, 2359, 2360, 2399}));
}

TEST(RowSample, EdgesBordersAndNoRepeats) {
  Case c({.batch = 3, .heads_q = 4, .seq_q = 200});
  const std::vector<int64_t> rows = sampled_rows(c.problem, {}, 64, {.limit = 40, .seed = 9});
  EXPECT_EQ(rows, sampled_rows(c.problem, {}, 64, {.limit = 40, .seed = 9}));
  EXPECT_NE(rows, sampled_rows(c.problem, {}, 64, {.limit = 40, .seed = 10}));
  EXPECT_EQ(rows.size(), 40u);
  EXPECT_EQ(std::set<int64_t>(rows.begin(), rows.end()).size(), 40u);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  EXPECT_EQ(rows.front(), 0);
  EXPECT_EQ(rows.back(), 2399);
  std::set<int64_t> positions;
  for (const int64_t row : rows) positions.insert(row % 200);
  for (const int64_t border : {63, 64, 127, 128, 191, 192}) EXPECT_TRUE(positions.contains(border)) << border;
}

// Of packed entries, a sample has only rows that exist, from all entries.
TEST(RowSample, RowsBeyondAnEntryAreNotSampled) {
  attn_problem p = Case({.batch = 5, .heads_q = 3, .seq_q = 4096}).problem;
  p.ragged = ATTN_RAGGED_QUERIES;
  const int64_t lengths[] = {16, 0, 200, 1, 0};
  const int64_t borders[] = {0, 16, 16, 216, 217, 217};
  attn_tensors host = {};
  host.cu_q = borders;
  const RowSpace space(p);
  EXPECT_EQ(rows_present(space, Sequences(p, host).queries), 3 * 217);
  const std::vector<int64_t> rows = sampled_rows(p, host, 64, {.limit = 60, .seed = 9});
  EXPECT_EQ(std::set<int64_t>(rows.begin(), rows.end()).size(), 60u);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  EXPECT_EQ(rows.front(), 0);
  EXPECT_EQ(rows.back(), space.of(3, 2, 0)) << "the last row of the last entry that has any";
  std::set<int64_t> entries, positions;
  for (const int64_t row : rows) {
    const Row at = space.at(row);
    EXPECT_LT(at.i, lengths[at.b]) << at.b;
    entries.insert(at.b), positions.insert(at.i);
  }
  EXPECT_EQ(entries, (std::set<int64_t>{0, 2, 3}));
  for (const int64_t border : {63, 64, 127, 128, 191, 192}) EXPECT_TRUE(positions.contains(border)) << border;
  EXPECT_EQ(sampled_rows(p, host, 64, {.limit = 3 * 217}).size(), static_cast<size_t>(space.count()));
  // Each existing row is one of a sample that lacks one row.
  EXPECT_EQ(sampled_rows(p, host, 64, {.limit = 3 * 217 - 1, .seed = 2}).size(), 650u);
  // The same for keys, by their own lengths.
  const RowSpace keys(5, 2, 4096);
  for (const int64_t key :
       sampled_rows(keys, EntryRows(5, borders, ATTN_INDEX_64), 64, {.limit = 40, .seed = 3}))
    EXPECT_LT(keys.at(key).i, lengths[keys.at(key).b]);
}

TEST(RowSample, ALimitThatIsEnoughTakesAll) {
  Case c({.seq_q = 5});
  EXPECT_EQ(sampled_rows(c.problem, {}, 64, {.limit = 5}).size(), 5u);
  EXPECT_EQ(sampled_rows(c.problem, {}, 64, {}).size(), 5u);
  EXPECT_EQ(sampled_rows(c.problem, {}, 0, {.limit = 1}), std::vector<int64_t>{0});
}

}  // namespace
}  // namespace attnfuzz
