// Tests the reducer on host attention with planted flaws, judged by the oracle. Each flaw
// must end in one case, from whatever case it was found.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdio>
#include <set>

#include "properties/case/codec/codec.h"
#include "properties/case/words.h"
#include "properties/draw/generator.h"
#include "properties/judge/trial.h"
#include "properties/reduce/reduce.h"
#include "reference/model/calibration.h"
#include "tests/properties/support/fake_target.h"
#include "tests/properties/support/random_case.h"

namespace attnfuzz {

namespace {

// Quick cases: half of them are drawn as in campaigns, half have more features.
Case start(uint64_t seed) {
  if (seed % 2 == 0) {
    const GeneratorConfig config{
        .variants = 1, .tiles_q = {16}, .tiles_k = {16}, .splits = true, .work = 200'000};
    Case c = draw(config, 1, seed);
    for (TensorLayout& l : c.layout) l.placement = Placement::kGuarded;
    return c;
  }
  Case c = random_case(seed);
  Problem& p = c.problem;
  const auto small = [](int64_t n) { return n > 64 ? n % 64 : n; };
  p.seq_q = small(p.seq_q);
  p.seq_k = small(p.seq_k);
  p.dim_qk = std::min<int64_t>(p.dim_qk, 40);
  p.dim_v = std::min<int64_t>(p.dim_v, 40);
  if (p.key_lengths) {
    for (int64_t& length : *p.key_lengths) length = std::min(length, p.seq_k);
  }
  c.planted.clear();
  // The fake kernel runs in this process, so a write past a tensor must not crash it.
  for (TensorLayout& l : c.layout) l.placement = Placement::kGuarded;
  return c;
}

struct Survey {
  std::set<std::string> minima;
  Reduction last;
};

Survey survey(Flaw flaw, int starts = 20) {
  Survey s;
  FakeTarget target(flaw);
  const Evaluate evaluate = [&](const Case& c) {
    return judge(c, *find_property("reference"), target, documented());
  };
  const auto key_of = [&](const Verdict& v) { return reduction_key(target.info(), v); };
  int found = 0;
  int64_t evaluations = 0, worst = 0;
  std::set<std::string> keys;
  for (uint64_t seed = 0; found < starts && seed < 4000; ++seed) {
    const Case c = start(seed);
    if (illegal(c)) continue;
    const Verdict v = evaluate(c);
    if (v.outcome != Outcome::kFail) continue;
    ++found;
    ReduceOptions options;
    options.seconds = 120;
    const Reduction r = reduce(c, v, key_of(v), evaluate, key_of, options);
    EXPECT_TRUE(r.complete);
    EXPECT_EQ(evaluate(r.minimal).outcome, Outcome::kFail);
    evaluations += r.evaluations;
    worst = std::max(worst, r.evaluations);
    // One flaw may show as two kinds of failure, and each is reduced separately. But the reducer may turn a NaN
    // or an infinity into a wrong number, and then reduces that.
    const std::string key = key_of(r.verdict);
    if (s.minima.insert(key + encode(r.minimal)).second) {
      std::printf("  %s: %s\n", key.c_str(), describe(r.minimal).c_str());
    }
    keys.insert(key);
    s.last = r;
  }
  std::printf("%-22s %d starts, %zu kinds, %zu minima, evaluations: mean %lld, worst %lld\n", to_string(flaw),
              found, keys.size(), s.minima.size(), static_cast<long long>(found ? evaluations / found : 0),
              static_cast<long long>(worst));
  for (const auto& need : lines_of(s.last.needs)) std::printf("    %s\n", need.c_str());
  EXPECT_EQ(found, starts);
  EXPECT_EQ(s.minima.size(), keys.size());
  return s;
}

class Flaws : public testing::TestWithParam<Flaw> {};

TEST_P(Flaws, EndInOneCase) { survey(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Reduce, Flaws,
                         testing::Values(Flaw::kDropsLastKey, Flaw::kWholeTileLost, Flaw::kHeadMap,
                                         Flaw::kBatchScale, Flaw::kSoftcapIgnored, Flaw::kWindowExclusive,
                                         Flaw::kAlignIgnored, Flaw::kLengthIgnored, Flaw::kStrideOfV,
                                         Flaw::kLseBase, Flaw::kNanOnDeadRow, Flaw::kVClipped, Flaw::kNoMaximum,
                                         Flaw::kFirstKeyTwice, Flaw::kReductionCountsTwice, Flaw::kSkipsLastRow,
                                         Flaw::kWorkspaceTrusted, Flaw::kWritesPast, Flaw::kCrashes),
                         [](const auto& info) {
                           std::string name;
                           for (const char ch : std::string(to_string(info.param))) {
                             if (std::isalnum(static_cast<unsigned char>(ch))) name += ch;
                           }
                           return name;
                         });

}  // namespace
}  // namespace attnfuzz
