// Tests long rows that are drawn for a GPU: they are legal, within the limits of a batch, and combined with all
// other features.
#include "properties/draw/long_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "properties/case/codec/codec.h"
#include "properties/draw/afford.h"
#include "properties/draw/generator.h"

namespace attnfuzz {
namespace {

constexpr int kCases = 12000;
constexpr int kLongRowsOf = 10;  // as in generator.cc

GeneratorConfig for_device() {
  GeneratorConfig config;
  config.splits = true;
  config.features = ATTN_FEATURE_RAGGED | ATTN_FEATURE_PAGED;
  config.device_work = kDeviceWork;
  return config;
}

TEST(LongRows, AreLegalAndWithinTheDevicesWork) {
  const GeneratorConfig config = for_device();
  int rows = 0;
  double work = 0;
  for (uint64_t i = 0; i < kCases; ++i) {
    const Case c = draw(config, 1, i);
    ASSERT_EQ(illegal(c), std::nullopt) << encode(c);
    if (c.problem.seq_k < 1024) continue;
    ++rows;
    ASSERT_LE(exact_work(c.problem), config.device_work) << encode(c);
    ASSERT_LE(c.problem.seq_k, 140'000) << encode(c);
    work += static_cast<double>(exact_work(c.problem));
  }
  EXPECT_GT(rows, kCases / kLongRowsOf * 4 / 5);
  EXPECT_LT(rows, kCases / 3) << "most rows are short";
  EXPECT_LT(work / rows, static_cast<double>(config.device_work) / 4) << "most leave most of the work unused";
}

TEST(LongRows, HaveEveryLengthTogetherWithEverythingElse) {
  struct Meeting {
    const char* name;
    double percent;  // the least share of cases with a long row
    std::function<bool(const Case&, const Problem&)> is;
    int met = 0;
  };
  Meeting meetings[] = {
      {"1,024 keys, 256 columns, softcap", 2,
       [](const Case&, const Problem& p) { return p.seq_k >= 1024 && p.dim_qk >= 256 && p.softcap > 0; }},
      {"1,024 keys, 64 heads of all entries", 6,
       [](const Case&, const Problem& p) { return p.seq_k >= 1024 && p.batch * p.heads_q >= 64; }},
      {"2,048 keys, 64 queries", 0.6,
       [](const Case&, const Problem& p) { return p.seq_k >= 2048 && p.seq_q >= 64; }},
      {"2,048 keys, packed entries", 2,
       [](const Case&, const Problem& p) { return p.seq_k >= 2048 && p.packed_k; }},
      {"2,048 keys, pages", 4, [](const Case&, const Problem& p) { return p.seq_k >= 2048 && p.paging; }},
      {"8,192 keys, 256 columns", 9,
       [](const Case&, const Problem& p) { return p.seq_k >= 8192 && p.dim_qk >= 256; }},
      {"8,192 keys, 16 heads", 6,
       [](const Case&, const Problem& p) { return p.seq_k >= 8192 && p.heads_q >= 16; }},
      {"8,192 keys, 64 splits", 6,
       [](const Case&, const Problem& p) { return p.seq_k >= 8192 && p.num_splits >= 64; }},
      {"8,192 keys, lengths of two entries", 1.4,
       [](const Case&, const Problem& p) { return p.seq_k >= 8192 && p.batch >= 2 && p.key_lengths; }},
      {"8,192 keys, 256 columns, 4 queries, bf16", 1.4,
       [](const Case&, const Problem& p) {
         return p.seq_k >= 8192 && p.dim_qk >= 256 && p.seq_q >= 4 && p.dtype == ATTN_BF16;
       }},
      {"8,192 keys, 128 columns, bias", 3,
       [](const Case&, const Problem& p) { return p.seq_k >= 8192 && p.dim_qk >= 128 && p.bias; }},
      {"16,384 keys, mask", 3, [](const Case&, const Problem& p) { return p.seq_k >= 16384 && p.mask; }},
      {"16,384 keys, 4 KV heads", 2,
       [](const Case&, const Problem& p) { return p.seq_k >= 16384 && p.heads_kv >= 4; }},
      {"65,536 keys", 1.4, [](const Case&, const Problem& p) { return p.seq_k >= 65536; }},
  };
  for (uint64_t i = 0; i < kCases; ++i) {
    const Case c = draw(for_device(), 2, i);
    for (Meeting& m : meetings) m.met += m.is(c, c.problem);
  }
  for (const Meeting& m : meetings) EXPECT_GE(100.0 * m.met * kLongRowsOf / kCases, m.percent) << m.name;
}

// Refused features are avoided here as well.
TEST(LongRows, StayWithinADomain) {
  GeneratorConfig config = for_device();
  config.domain.emplace();
  config.domain->size = sizeof(attn_domain);
  config.domain->dim_qk = config.domain->dim_v = {64, 128, 64, 0, {}};
  config.domain->equal_lengths = 1;
  int rows = 0;
  for (uint64_t i = 0; i < 4000; ++i) {
    const Problem p = draw(config, 3, i).problem;
    EXPECT_EQ(p.seq_q, p.seq_k);
    EXPECT_TRUE(p.dim_qk == 64 || p.dim_qk == 128) << p.dim_qk;
    rows += p.seq_k >= 1024;
  }
  EXPECT_GT(rows, 50);
}

// Without a device the cases are those of Generator.StreamIsTheSameOnEveryMachine.
TEST(LongRows, AreNotDrawnForACpu) {
  GeneratorConfig config = for_device();
  config.device_work = 0;
  int rows = 0;
  for (uint64_t i = 0; i < 4000; ++i) {
    const Problem p = draw(config, 1, i).problem;
    rows += p.seq_k >= 1024;
    EXPECT_LE(exact_work(p), 100'000'000);
  }
  EXPECT_LT(rows, 4000 / 5);
}

}  // namespace
}  // namespace attnfuzz
