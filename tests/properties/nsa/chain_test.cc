#include "properties/nsa/chain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "properties/nsa/whole.h"
#include "tests/fuzz/batch/oracle_target.h"

namespace attnfuzz::nsa {
namespace {

using enum TensorId;

constexpr uint64_t kAll = ATTN_FEATURE_KEY_STEP | ATTN_FEATURE_SELECTED | ATTN_FEATURE_NSA_SELECT |
                          ATTN_FEATURE_NSA_COMPRESS | ATTN_FEATURE_NSA_COMBINE;

Sizes small() {
  Sizes s;
  s.heads_q = 2, s.dim = 8, s.tokens = 21;
  s.key_step = 2, s.block_length = 4, s.block = 4, s.select = 3, s.window = 5;
  return s;
}

std::vector<int64_t> tokens_of(const Sizes& s) {
  std::vector<int64_t> all(static_cast<size_t>(s.tokens));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

constexpr uint64_t kAllAndScore = kAll | ATTN_FEATURE_NSA_SCORE;

// One kernel for all stages; it scores if it has the operation.
Kernels kernels_of(Target& target) {
  static const Calibration calibration = documented();
  Kernels kernels;
  kernels.fill({&target, &calibration});
  if ((target.info().features & ATTN_FEATURE_NSA_SCORE) == 0) kernels[static_cast<size_t>(Stage::kScore)] = {};
  return kernels;
}

TEST(NsaChain, ARightKernelPassesAtManySizes) {
  for (const uint64_t features : {kAll, kAllAndScore}) {
    OracleTarget target(nullptr, features);
    int64_t judged = 0;
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      const Sizes s = draw_sizes(seed, 40);
      const Judged one = judge_chain(s, draw_inputs(s, seed), kernels_of(target));
      EXPECT_EQ(one.refused, "") << describe(s);
      EXPECT_FALSE(one.failed()) << describe(s) << ": " << (one.failure ? one.failure->message : one.wrong);
      EXPECT_LE(one.worst_whole, 1);
      judged += one.judged;
    }
    EXPECT_GT(judged, 10'000);
  }
}

// Kernels for tensor cores often take only groups of 16 heads, and one head dimension.
TEST(NsaChain, SizesLieInTheDomainsOfTheKernels) {
  OracleTarget listed(nullptr, kAll), any(nullptr, kAll);
  attn_domain& domain = listed.terms.emplace();
  domain = {};
  domain.size = sizeof domain;
  domain.dtypes = 1u << ATTN_BF16;
  domain.group = {.multiple = 16}, domain.dim_qk = domain.dim_v = {.count = 1, .list = {128}};
  Kernels kernels = kernels_of(any);
  kernels[static_cast<size_t>(Stage::kListed)].target = &listed;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Sizes drawn = draw_sizes(seed, 40, Blocks{.step = 16, .length = 32, .chosen = 64});
    EXPECT_EQ(drawn.key_step, 16);
    EXPECT_EQ(drawn.block_length, 32);
    EXPECT_EQ(drawn.block, 64);
    Sizes s = drawn;
    fit_domains(kernels, &s);
    EXPECT_EQ(s.heads_q / s.heads_kv % 16, 0) << describe(s);
    EXPECT_EQ(s.dim, 128);
    EXPECT_EQ(s.dtype, ATTN_BF16);
    EXPECT_EQ(s.tokens, drawn.tokens);
    s = drawn;
    fit_domains(kernels_of(any), &s);
    EXPECT_EQ(describe(s), describe(drawn)) << "no kernel limits them";
  }
}

constexpr uint64_t kPackedToo = ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32;

// A packed prefill runs if the sizes have sequences and all kernels take them.
TEST(NsaChain, ARightKernelPassesWithPackedSequences) {
  for (const uint64_t features : {kAll, kAllAndScore}) {
    OracleTarget dense(nullptr, features), target(nullptr, features | kPackedToo);
    EXPECT_NE(takes_no_packed(kernels_of(dense)).find(" (compression)"), std::string::npos);
    EXPECT_EQ(takes_no_packed(kernels_of(target)), "");
    int packed = 0, empty = 0;
    for (uint64_t seed = 1; seed <= 24; ++seed) {
      const Sizes s = draw_sizes(seed, 40);
      EXPECT_EQ(s.packed.empty() ? s.tokens : std::reduce(s.packed.begin(), s.packed.end()), s.tokens);
      if (s.packed.empty()) continue;
      empty += std::ranges::count(s.packed, 0) > 0;
      const Judged one = judge_chain(s, draw_inputs(s, seed), kernels_of(target));
      EXPECT_EQ(one.refused + one.packed_refused, "") << describe(s);
      EXPECT_FALSE(one.failed()) << describe(s) << ": " << (one.failure ? one.failure->message : one.wrong);
      packed += one.packed;
      EXPECT_FALSE(judge_chain(s, draw_inputs(s, seed), kernels_of(dense)).packed);
    }
    EXPECT_GT(packed, 5);
    EXPECT_GT(empty, 0);
  }
}

Sizes packed_small() {
  Sizes s = small();
  s.packed = {6, 0, 15};
  return s;
}

// The stage that is wrong for packed entries alone is named, and so is the pass.
TEST(NsaChain, NamesTheStageThatIsWrongForPackedSequences) {
  const Sizes s = packed_small();
  OracleTarget right(nullptr, kAllAndScore | kPackedToo),
      late([](attn_problem& p, attn_tensors&) { p.key_offset += p.ragged != 0 ? 1 : 0; },
           kAllAndScore | kPackedToo),
      wide([](attn_problem& p, attn_tensors&) { p.window_left += p.ragged != 0 ? 1 : 0; },
           kAllAndScore | kPackedToo),
      sharp([](attn_problem& p, attn_tensors&) { p.scale *= p.ragged != 0 ? 2.0f : 1.0f; },
            kAllAndScore | kPackedToo),
      fewer([](attn_problem& p, attn_tensors&) { p.select_last -= p.ragged != 0 ? 1 : 0; },
            kAllAndScore | kPackedToo);
  const std::pair<Stage, Target*> wrong[] = {{Stage::kCompress, &late}, {Stage::kCompressed, &late},
                                             {Stage::kScore, &sharp},   {Stage::kChoose, &fewer},
                                             {Stage::kListed, &sharp},  {Stage::kWindow, &wide}};
  EXPECT_TRUE(judge_chain(s, draw_inputs(s, 1), kernels_of(right)).packed);
  for (const auto& [stage, target] : wrong) {
    Kernels kernels = kernels_of(right);
    kernels[static_cast<size_t>(stage)] = kernels_of(*target)[0];
    if (stage == Stage::kChoose) kernels[static_cast<size_t>(Stage::kScore)] = {};
    const Judged one = judge_chain(s, draw_inputs(s, 1), kernels);
    ASSERT_TRUE(one.failure) << name_of(stage);
    EXPECT_EQ(one.failure->stage, stage) << one.failure->message;
    EXPECT_TRUE(one.failure->message.starts_with(std::string("packed prefill, ") + name_of(stage) + " by "))
        << one.failure->message;
    EXPECT_FALSE(one.packed);
  }
}

// The scores of queries that a packed entry does not have are 0, so a case that holds the scores of a call has
// values only in rows that exist. A value elsewhere would replace one of the entry's last row.
TEST(NsaChain, ACaseHoldsOnlyScoresOfQueriesThatExist) {
  OracleTarget right(nullptr, kAll | kPackedToo),
      fewer([](attn_problem& p, attn_tensors&) { p.select_last -= p.ragged != 0 ? 1 : 0; }, kAll | kPackedToo);
  Kernels kernels = kernels_of(right);
  kernels[static_cast<size_t>(Stage::kChoose)] = kernels_of(fewer)[0];
  const Judged one = judge_chain(packed_small(), draw_inputs(packed_small(), 1), kernels);
  ASSERT_TRUE(one.failure);
  ASSERT_EQ(one.failure->stage, Stage::kChoose) << one.failure->message;
  const std::vector<Case> cases = ordinary_cases(one.failure->c, one.failure->inputs);
  ASSERT_EQ(cases.size(), 2u);
  const Case& exact = cases.back();
  EXPECT_GT(exact.planted.size(), 20u);
  for (const Planted& x : exact.planted) {
    ASSERT_EQ(x.tensor, kScores);
    EXPECT_LT(x.s, lengths_of(exact.problem, x.b).queries) << "entry " << x.b;
  }
}

// Each packed sequence has exactly the combination that it has in a prefill of its own.
void expect_prefills_of_their_own(uint64_t features) {
  OracleTarget target(nullptr, features);
  const Sizes s = packed_small();
  const Inputs in = draw_inputs(s, 3);
  const std::vector<int64_t> tokens = tokens_of(s);
  Pass pass = run_pass(s, in, tokens, PassKind::kPacked, kernels_of(target));
  ASSERT_TRUE(pass.complete()) << pass.refused;
  const Whole whole = whole_of(s, in, tokens, PassKind::kPacked, pass);
  EXPECT_EQ(whole.wrong, "");
  Sizes alone = s;
  alone.tokens = 15, alone.packed = {};
  Inputs of_one;
  const auto cut = [&](const std::vector<float>& x, int64_t heads, int64_t columns, std::vector<float>& to) {
    for (int64_t h = 0; h < heads; ++h)
      to.insert(to.end(), x.begin() + (h * s.tokens + 6) * columns, x.begin() + (h + 1) * s.tokens * columns);
  };
  cut(in.q, s.heads_q, s.dim, of_one.q), cut(in.gates, s.heads_q, 3, of_one.gates);
  cut(in.k, s.heads_kv, s.dim, of_one.k), cut(in.v, s.heads_kv, s.dim, of_one.v);
  const std::vector<int64_t> of_alone = tokens_of(alone);
  const Pass one = run_pass(alone, of_one, of_alone, PassKind::kPrefill, kernels_of(target));
  ASSERT_TRUE(one.complete()) << one.refused;
  const auto& o = pass.calls[static_cast<size_t>(Stage::kCombine)].outputs[kO];
  const auto& o_one = one.calls[static_cast<size_t>(Stage::kCombine)].outputs[kO];
  for (int64_t h = 0; h < s.heads_q; ++h)
    for (int64_t at = 0; at < 15 * s.dim; ++at)
      EXPECT_EQ(o[static_cast<size_t>((h * s.tokens + 6) * s.dim + at)],
                o_one[static_cast<size_t>(h * 15 * s.dim + at)]);

  auto& wrong = pass.calls[static_cast<size_t>(Stage::kCombine)].outputs[kO];
  wrong[static_cast<size_t>((s.tokens + 8) * s.dim + 5)] += 0.5f;
  EXPECT_TRUE(whole_of(s, in, tokens, PassKind::kPacked, pass)
                  .wrong.starts_with("packed prefill, the whole: O of token 8, head 1, column 5 is "));
}

TEST(NsaChain, APackedSequenceIsAPrefillOfItsOwn) {
  for (const uint64_t features : {kAll, kAllAndScore}) expect_prefills_of_their_own(features | kPackedToo);
}

// A packed pass that a kernel refuses is told, and the other passes count.
TEST(NsaChain, ARefusedPackedPassIsTold) {
  class Refuses final : public OracleTarget {
   public:
    Refuses() : OracleTarget(nullptr, kAllAndScore | kPackedToo) {}
    PlanReply plan(const attn_problem& p, const attn_tensors& t, const attn_env& env) override {
      PlanReply reply = OracleTarget::plan(p, t, env);
      if (p.ragged != 0) reply.status = ATTN_UNSUPPORTED, reply.reason = "packed today";
      return reply;
    }
  } refuses;
  OracleTarget right(nullptr, kAllAndScore | kPackedToo);
  Kernels kernels = kernels_of(right);
  kernels[static_cast<size_t>(Stage::kListed)] = kernels_of(refuses)[0];
  const Judged one = judge_chain(packed_small(), draw_inputs(packed_small(), 1), kernels);
  EXPECT_FALSE(one.failed());
  EXPECT_FALSE(one.packed);
  EXPECT_EQ(one.refused, "");
  EXPECT_NE(one.packed_refused.find("packed today"), std::string::npos) << one.packed_refused;
}

// The kernel that scores makes the lists, in the prefill and in the decode, and is judged by its own oracle.
TEST(NsaChain, AKernelThatScoresMakesTheLists) {
  const Sizes s = small();
  OracleTarget right(nullptr, kAllAndScore);
  const auto with = [&](Target& target) {
    Kernels kernels = kernels_of(right);
    kernels[static_cast<size_t>(Stage::kScore)] = kernels_of(target)[0];
    return kernels;
  };
  for (const PassKind kind : {PassKind::kPrefill, PassKind::kDecode}) {
    const Pass pass = run_pass(s, draw_inputs(s, 1), tokens_of(s), kind, kernels_of(right));
    ASSERT_TRUE(pass.complete());
    EXPECT_EQ(pass.chooses, Stage::kScore);
    EXPECT_TRUE(pass.calls[static_cast<size_t>(Stage::kChoose)].outputs.integers(kChosen).empty());
    EXPECT_EQ(pass.lists().size(), static_cast<size_t>(s.heads_kv * s.tokens * s.select));
    EXPECT_GT(pass.calls[static_cast<size_t>(Stage::kScore)].verdict.worst, 0) << "scores have a bound";
  }
  OracleTarget early([](attn_problem& p, attn_tensors&) { p.key_offset /= 2; }, kAllAndScore),
      // In the prefill only: the decode has an entry for each token.
      late([](attn_problem& p, attn_tensors&) { p.scale *= p.batch > 1 ? 2.0f : 1.0f; }, kAllAndScore);
  const Judged prefill = judge_chain(s, draw_inputs(s, 1), with(early)),
               decode = judge_chain(s, draw_inputs(s, 1), with(late));
  for (const Judged& one : {prefill, decode}) {
    ASSERT_TRUE(one.failure);
    EXPECT_EQ(one.failure->stage, Stage::kScore) << one.failure->message;
  }
  EXPECT_TRUE(prefill.failure->message.starts_with("prefill, scores and choice of blocks by "))
      << prefill.failure->message;
  EXPECT_TRUE(decode.failure->message.starts_with("decode, scores and choice of blocks by "))
      << decode.failure->message;
}

TEST(NsaChain, NamesTheStageThatIsWrong) {
  const Sizes s = small();
  OracleTarget right(nullptr, kAll), early([](attn_problem& p, attn_tensors&) { p.key_offset /= 2; }, kAll);
  for (const Stage stage : {Stage::kCompress, Stage::kCompressed}) {
    Kernels kernels = kernels_of(right);
    kernels[static_cast<size_t>(stage)] = kernels_of(early)[0];
    const Judged one = judge_chain(s, draw_inputs(s, 1), kernels);
    ASSERT_TRUE(one.failure);
    EXPECT_EQ(one.failure->stage, stage);
    EXPECT_NE(one.failure->message.find(name_of(stage)), std::string::npos) << one.failure->message;
  }
}

TEST(NsaChain, PrefillAndDecodeAreComparedToo) {
  OracleTarget target(nullptr, kAll);
  const Sizes s = small();
  const Inputs in = draw_inputs(s, 2);
  const std::vector<int64_t> tokens = tokens_of(s);
  Pass prefill = run_pass(s, in, tokens, PassKind::kPrefill, kernels_of(target)),
       decode = run_pass(s, in, tokens, PassKind::kDecode, kernels_of(target));
  ASSERT_TRUE(prefill.complete() && decode.complete());
  const Whole whole = whole_of(s, in, tokens, PassKind::kPrefill, prefill),
              one = whole_of(s, in, tokens, PassKind::kDecode, decode);
  EXPECT_EQ(whole.wrong + one.wrong, "");
  EXPECT_EQ(differs(s, tokens, prefill, whole, decode, one), "");

  Pass other = decode;
  auto& chosen = other.calls[static_cast<size_t>(Stage::kChoose)].outputs.integers(kChosen);
  std::ranges::reverse(chosen);
  EXPECT_NE(differs(s, tokens, prefill, whole, other, one).find("choose other blocks"), std::string::npos);
  OracleTarget scores(nullptr, kAllAndScore);
  Pass scored = run_pass(s, in, tokens, PassKind::kPrefill, kernels_of(scores)),
       scored_other = run_pass(s, in, tokens, PassKind::kDecode, kernels_of(scores));
  ASSERT_TRUE(scored.complete() && scored_other.complete());
  std::ranges::reverse(scored_other.calls[static_cast<size_t>(Stage::kScore)].outputs.integers(kChosen));
  EXPECT_EQ(differs(s, tokens, scored, whole, scored_other, one), "")
      << "close scores allow several lists, and each was judged by itself";
  other = decode;
  other.calls[static_cast<size_t>(Stage::kCombine)].outputs[kO][5] += 0.5f;
  EXPECT_NE(differs(s, tokens, prefill, whole, other, one).find("differ for token 0"), std::string::npos);
  other.calls[static_cast<size_t>(Stage::kCompress)].outputs[kKCmp][0] += 1;
  EXPECT_NE(differs(s, tokens, prefill, whole, other, one).find("differ for token 0"), std::string::npos)
      << "the blocks are the same, though compressed keys are not";
  EXPECT_NE(whole_of(s, in, tokens, PassKind::kDecode, other).wrong.find("token 0, head 0, column 5"),
            std::string::npos);
}

// If the oracle allows any value of an element, the chain passes there, and the element counts as open.
TEST(NsaChain, UnknownElementsMayBeAnything) {
  OracleTarget target(nullptr, kAll);
  const Sizes s = small();
  const Inputs in = draw_inputs(s, 2);
  const std::vector<int64_t> tokens = tokens_of(s);
  Pass pass = run_pass(s, in, tokens, PassKind::kPrefill, kernels_of(target));
  ASSERT_TRUE(pass.complete());
  GivenCall& combined = pass.calls[static_cast<size_t>(Stage::kCombine)];
  combined.reference[kO].rule[5] = static_cast<uint8_t>(Due::kAnything);
  for (const float anything : {std::nanf(""), INFINITY}) {
    combined.outputs[kO][5] = anything;
    const Whole whole = whole_of(s, in, tokens, PassKind::kPrefill, pass);
    EXPECT_EQ(whole.wrong, "");
    EXPECT_EQ(whole.open, 1);
  }
}

// Each key of a compressed block adds 1 / key_step of the block's weight to the score of the selectable block
// that contains the key.
TEST(NsaChain, ScoresAreSharesOfWeights) {
  const Sizes s = small();
  const std::vector<int64_t> tokens = tokens_of(s);
  const Case c = case_of(Stage::kCompressed, s, tokens, PassKind::kPrefill);
  const std::vector<float> q(static_cast<size_t>(s.heads_q * s.tokens * s.dim)),
      k(static_cast<size_t>(s.compressed() * s.dim), 1.0f);
  const std::vector<float> scores = scores_of(s, c.problem, q, k);
  for (int64_t t = 0; t < s.tokens; ++t) {
    const int64_t seen = t < 3 ? 0 : (t - 3) / 2 + 1;
    for (int64_t j = 0; j < s.blocks(); ++j) {
      const float got = scores[static_cast<size_t>(t * s.blocks() + j)];
      if (j > t / 4) {
        EXPECT_TRUE(std::isnan(got)) << "the query may not choose it";
        continue;
      }
      double due = 0;
      for (int64_t i = 0; i < seen; ++i)
        for (int64_t key = 2 * i; key < 2 * i + 4; ++key)
          due += key / 4 == j ? 2 * 0.5 / static_cast<double>(seen) : 0;
      EXPECT_NEAR(got, due, 1e-6) << t << " " << j;
    }
  }
}

}  // namespace
}  // namespace attnfuzz::nsa
