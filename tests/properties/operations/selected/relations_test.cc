// Tests properties of listed blocks and of their choice: each holds for a right kernel, and each finds a kernel
// that breaks only its statement, in a case that the property `reference` passes.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "properties/case/features/shrink_toggles.h"
#include "properties/draw/generator.h"
#include "properties/judge/trial.h"
#include "reference/nsa/choice.h"
#include "reference/rows/visibility.h"
#include "tests/properties/support/packed_leak.h"

namespace attnfuzz {
namespace {

using enum TensorId;

constexpr uint64_t kPacked = ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32 | ATTN_FEATURE_NO_FORWARD,
                   kLists = ATTN_FEATURE_SELECTED | kPacked, kChoices = ATTN_FEATURE_NSA_SELECT | kPacked;

Verdict judged(const char* property, const Case& c, Target& target) {
  return judge(c, *find_property(property), target, documented());
}

void expect_right(Target& target, std::initializer_list<const char*> names, uint64_t features) {
  for (const char* name : names) {
    int passed = 0;
    for (uint64_t index = 0; index < 60; ++index) {
      const Verdict v = judged(name, draw({.features = features, .work = 100'000}, 3, index), target);
      ASSERT_NE(v.outcome, Outcome::kFail) << name << ", case " << index << ": " << v.message;
      passed += v.outcome == Outcome::kPass;
    }
    EXPECT_GT(passed, 40) << name;
  }
}

// Three queries whose lists name the first two of four blocks of two keys.
Case listed_case() {
  Case c;
  Problem& p = c.problem;
  p.features = ATTN_FEATURE_SELECTED;
  p.seq_q = 3, p.seq_k = 8, p.dim_qk = p.dim_v = 8;
  p.selection.block = 2, p.selection.select = 2;
  c.q = {.kind = FillKind::kGaussian, .exponent = -3, .seed = 1};
  c.k = c.v = {.kind = FillKind::kGaussian, .seed = 2};
  tidy(c);
  return c;
}

TEST(ListRelations, ARightKernelPasses) {
  OracleTarget right(nullptr, kLists);
  expect_right(right, {"reference", "selected_as_mask", "selected_future", "selected_order", "packed_alone", "packed_slack"},
               kLists);
}

// The last bit of the LSE depends on a NaN in any key, visible or hidden. All values are within their bounds.
class HiddenKeyTarget final : public OracleTarget {
 public:
  HiddenKeyTarget() : OracleTarget(nullptr, kLists) {}
  RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
               const attn_env& env, int stream) override {
    const RunReply reply = OracleTarget::run(stage, p, t, plan, env, stream);
    if (t.lse.data == nullptr || !holds_nan(p, t.k)) return reply;
    for (int64_t b = 0; b < p.batch; ++b) {
      for (int64_t h = 0; h < p.heads_q; ++h) {
        for (int64_t i = 0; i < p.seq_q; ++i) {
          float& lse = static_cast<float*>(t.lse.data)[offset_of(t.lse, b, h, i, 0)];
          if (std::isfinite(lse) && lse != 0) lse = std::bit_cast<float>(std::bit_cast<uint32_t>(lse) ^ 1);
        }
      }
    }
    return reply;
  }

 private:
  static bool holds_nan(const attn_problem& p, const attn_tensor& k) {
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t h = 0; h < p.heads_kv; ++h)
        for (int64_t j = 0; j < p.seq_k; ++j)
          for (int64_t d = 0; d < p.dim_qk; ++d)
            if (std::isnan(decode(p.dtype, k.data, offset_of(k, b, h, j, d)))) return true;
    return false;
  }
};

TEST(ListRelations, AHiddenKeyThatChangesABitIsFound) {
  HiddenKeyTarget target;
  int found = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {  // the seed chooses the keys that change
    Case c = listed_case();
    c.v.seed = seed;
    const Verdict reference = judged("reference", c, target);
    ASSERT_EQ(reference.outcome, Outcome::kPass) << reference.message;
    const Verdict v = judged("selected_future", c, target);
    if (v.outcome != Outcome::kFail) continue;
    EXPECT_EQ(v.kind, Kind::kRelation) << v.message;
    ++found;
  }
  EXPECT_GT(found, 0);
}

// Keys of the entry itself that a query does not see, and keys of the next entry.
TEST(ListRelations, KeysOfPackedEntriesThatAreReadAreFound) {
  expect_leaks_found(kLse, kLists, "selected_future", [](uint64_t seed) {
    Case c = listed_case();
    c.problem.batch = 2;
    c.problem.packed_q = Packing{.lengths = {3, 2}},
    c.problem.packed_k = Packing{.lengths = {8, 5}, .slack = 1};
    c.v.seed = seed;
    return c;
  });
}

// Takes the first -1 for the end of a list.
void ends_at_none(attn_problem& p, attn_tensors& t) {
  static std::vector<int64_t> lists;
  const bool narrow = p.index_dtype == ATTN_INDEX_32;
  lists.clear();
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t g = 0; g < p.heads_kv; ++g) {
      for (int64_t i = 0; i < p.seq_q; ++i) {
        bool ended = false;
        for (int64_t n = 0; n < p.select; ++n) {
          const int64_t at = offset_of(t.indices, b, g, i, n);
          const int64_t block = narrow ? static_cast<const int32_t*>(t.indices.data)[at]
                                       : static_cast<const int64_t*>(t.indices.data)[at];
          ended = ended || block < 0;
          lists.push_back(ended ? -1 : block);
        }
      }
    }
  }
  p.index_dtype = ATTN_INDEX_64, p.features &= ~ATTN_FEATURE_INDEX32;
  t.indices = {lists.data(), {p.heads_kv * p.seq_q * p.select, p.seq_q * p.select, p.select, 1}};
}

TEST(ListRelations, AnOrderThatHasAMeaningIsFound) {
  OracleTarget target(ends_at_none, kLists);
  Case c = listed_case();
  c.problem.selection.select = 6;  // four blocks, then -1 twice
  ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
  const Verdict reference = judged("reference", c, target);
  EXPECT_EQ(reference.outcome, Outcome::kPass) << reference.message;
  const Verdict v = judged("selected_order", c, target);
  EXPECT_EQ(v.outcome, Outcome::kFail);
  EXPECT_NE(v.message.find("lists in another order"), std::string::npos) << v.message;
}

// Reads only three indices if a list has more indices than there are blocks.
void stops_early(attn_problem& p, attn_tensors&) {
  if (p.select > 4) p.select = 3;
}

TEST(ListRelations, ListsWithNothingAppendedAreTheSame) {
  OracleTarget target(stops_early, kLists);
  Case c = listed_case();
  c.problem.selection.select = 4;  // all four blocks
  ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
  const Verdict reference = judged("reference", c, target);
  EXPECT_EQ(reference.outcome, Outcome::kPass) << reference.message;
  const Verdict v = judged("selected_order", c, target);
  EXPECT_EQ(v.outcome, Outcome::kFail);
  EXPECT_NE(v.message.find("lists with -1 appended"), std::string::npos) << v.message;
}

// Chooses blocks as the oracle does, but clips scores at `most`.
class ChoiceTarget final : public FakeTarget {
 public:
  explicit ChoiceTarget(float most = std::numeric_limits<float>::infinity())
      : FakeTarget(Flaw::kNone, /*stages=*/false), most_(most) {
    take_features(kChoices);
  }
  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
    attn_problem small = problem;
    small.batch = 0;  // FakeTarget asks for Q and O
    return FakeTarget::plan(small, tensors, env);
  }
  RunReply run(Stage, const attn_problem& p, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env&, int) override {
    attn_tensors t = tensors;
    const auto [batch, heads, queries, blocks] = stored_shape_of(spec_of(kScores), p);
    std::vector<float> scores;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t g = 0; g < heads; ++g)
        for (int64_t i = 0; i < queries; ++i)
          for (int64_t j = 0; j < blocks; ++j)
            scores.push_back(cut(static_cast<const float*>(t.scores.data)[offset_of(t.scores, b, g, i, j)]));
    t.scores = {scores.data(), {heads * queries * blocks, queries * blocks, blocks, 1}};
    const Reference due = evaluate_choice(p, t, plan, documented());
    const RowSpace rows(p);
    const Sequences sequences(p, t);
    for (int64_t row = 0; row < rows.count(); ++row) {
      if (due.state[static_cast<size_t>(row)] == RowState::kAbsent) continue;
      const Row at = rows.at(row);
      const StoredRow stored = sequences.query_row(at.b, at.i);
      for (int64_t n = 0; n < p.select; ++n) {
        const int64_t block = due[kChosen].integer[static_cast<size_t>(row * p.select + n)];
        const int64_t to = offset_of(tensors.indices, stored.entry, at.h, stored.row, n);
        if (p.index_dtype == ATTN_INDEX_32)
          static_cast<int32_t*>(tensors.indices.data)[to] = static_cast<int32_t>(block);
        else
          static_cast<int64_t*>(tensors.indices.data)[to] = block;
      }
    }
    return {};
  }

 private:
  float cut(float score) const { return score > most_ ? most_ : score; }

  const float most_;
};

// A kernel that places the queries of packed entries otherwise than those of dense ones is found.
TEST(ListRelations, PackedEntriesAreJudged) {
  OracleTarget wrong(
      [](attn_problem& p, attn_tensors&) {
        if (p.ragged != 0) p.align = ATTN_TOP_LEFT;
      },
      kLists);
  Case c = listed_case();
  c.problem.batch = 2, c.problem.causal = true, c.problem.align = ATTN_BOTTOM_RIGHT;
  c.problem.packed_q = Packing{.lengths = {1, 3}}, c.problem.packed_k = Packing{.lengths = {8, 5}};
  ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
  OracleTarget right(nullptr, kLists);
  EXPECT_EQ(judged("packed_alone", c, right).outcome, Outcome::kPass);
  EXPECT_EQ(judged("reference", c, wrong).outcome, Outcome::kFail);
  EXPECT_EQ(judged("selected_as_mask", c, wrong).outcome, Outcome::kFail);
}

TEST(ChoiceRelations, ARightKernelPasses) {
  ChoiceTarget right;
  expect_right(right, {"reference", "select_doubled", "select_packed_alone"}, kChoices);
}

TEST(ChoiceRelations, ClippedScoresAreFound) {
  ChoiceTarget target(1.0f);
  Case c;
  Problem& p = c.problem;
  p.features = ATTN_FEATURE_NSA_SELECT;
  p.seq_q = 4, p.seq_k = 64;
  p.selection.select = 16;
  c.scores = {.kind = FillKind::kUniform, .seed = 1};  // below 1, and below 2 if they are doubled
  tidy(c);
  ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
  const Verdict reference = judged("reference", c, target);
  EXPECT_EQ(reference.outcome, Outcome::kPass) << reference.message;
  for (const bool packed : {false, true}) {
    if (packed) {
      p.batch = 2;
      p.packed_q = Packing{.lengths = {1, 4}, .slack = 1}, p.packed_k = Packing{.lengths = {40, 64}};
      ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
      ASSERT_EQ(judged("reference", c, target).outcome, Outcome::kPass);
    }
    const Verdict v = judged("select_doubled", c, target);
    EXPECT_EQ(v.outcome, Outcome::kFail);
    EXPECT_NE(v.message.find("scores times 2"), std::string::npos) << v.message;
  }
}

}  // namespace
}  // namespace attnfuzz
