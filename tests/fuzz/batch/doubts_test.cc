// Tests that a batch finds what a trial finds, with fake kernels whose flaws are known.
#include <gtest/gtest.h>

#include <cstring>

#include "fuzz/batch/batch_judge.h"
#include "properties/judge/property.h"
#include "properties/judge/trial.h"
#include "tests/fuzz/batch/cases.h"
#include "tests/fuzz/batch/fake_batch_target.h"
#include "tests/fuzz/batch/oracle_target.h"
#include "tests/fuzz/batch/same_as_alone.h"
#include "tests/properties/support/fake_target.h"
#include "tests/properties/support/random_case.h"

namespace attnfuzz {
namespace {

// Each kernel misreads one feature. The batch must find it in the same cases as a trial.
TEST(BatchJudge, DoubtsAMisreadFeatureAsATrialDoes) {
  struct Misreading {
    uint64_t feature;
    OracleTarget::Misreads misreads;
  };
  static std::vector<int32_t> borders;
  static std::vector<int64_t> table;
  const Misreading all[] = {
      {ATTN_FEATURE_SINK,
       [](attn_problem& p, attn_tensors&) { p.has_sink = 0, p.features &= ~ATTN_FEATURE_SINK; }},
      {ATTN_FEATURE_ALIBI,
       [](attn_problem& p, attn_tensors&) { p.has_alibi = 0, p.features &= ~ATTN_FEATURE_ALIBI; }},
      {ATTN_FEATURE_LATENT,
       [](attn_problem& p, attn_tensors& t) {
         if (p.latent && p.dim_qk > p.dim_v)
           t.v.data = static_cast<char*>(t.v.data) + t.v.stride[3] * (p.dtype == ATTN_F32 ? 4 : 2);
       }},
      {ATTN_FEATURE_WIDE, [](attn_problem& p, attn_tensors&) { p.dim_qk = std::min<int64_t>(p.dim_qk, 256); }},
      // Keys of every entry but the first are read one row too early.
      {ATTN_FEATURE_RAGGED,
       [](attn_problem& p, attn_tensors& t) {
         if ((p.ragged & ATTN_RAGGED_KEYS) == 0) return;
         borders.clear();
         for (int64_t b = 0; b <= p.batch; ++b) {
           const auto border = static_cast<int32_t>(index_at(p.index_dtype, t.cu_k, b));
           borders.push_back(b > 0 && border > 0 ? border - 1 : border);
         }
         t.cu_k = borders.data();
         p.index_dtype = ATTN_INDEX_32;
         p.has_key_lengths = 0;
       }},
      // An entry finds its first page where its second should be.
      {ATTN_FEATURE_PAGED,
       [](attn_problem& p, attn_tensors& t) {
         if (p.page_size == 0) return;
         table.clear();
         for (int64_t b = 0; b < p.batch; ++b) {
           const auto* row = static_cast<const int64_t*>(t.block_table.data) + b * t.block_table.stride[0];
           table.insert(table.end(), row, row + p.pages_per_seq);
           if (key_length(p, t, b) > p.page_size) (table.end() - p.pages_per_seq)[1] = row[0];
         }
         t.block_table = {table.data(), {p.pages_per_seq, 0, 0, 1}};
       }},
      {ATTN_FEATURE_KEY_STEP, [](attn_problem& p, attn_tensors&) { p.key_offset /= 2; }},
      {ATTN_FEATURE_INDEX32, [](attn_problem& p, attn_tensors&) {
         if (p.ragged == 0) p.index_dtype = ATTN_INDEX_64, p.features &= ~ATTN_FEATURE_INDEX32;
       }}};
  for (const auto& [feature, misreads] : all) {
    OracleTarget wrong(misreads, OracleTarget::kBatched);
    EXPECT_GT(expect_equal_verdicts(cases_with(feature, 6, 40), wrong), 0) << feature;
  }
}

// Writes beyond the last entry, and an unwritten row. Only checks of memory show them.
TEST(BatchJudge, DoubtsRowsOfPackedEntriesAsATrialDoes) {
  class Slips : public OracleTarget {
   public:
    explicit Slips(bool beyond) : beyond_(beyond) {}
    RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
                 const attn_env& env, int stream) override {
      const int64_t bytes = p.dtype == ATTN_F32 ? 4 : 2;
      const int64_t owned = (p.ragged & ATTN_RAGGED_QUERIES) != 0 ? Sequences(p, t).queries.owned() : 0;
      const bool some = owned > 0 && (!beyond_ || owned < p.total_q);
      auto* const row = static_cast<char*>(t.o.data) + (beyond_ ? owned : owned - 1) * t.o.stride[2] * bytes;
      char before[4];
      if (some) std::memcpy(before, row, sizeof before);
      const RunReply reply = OracleTarget::run(stage, p, t, plan, env, stream);
      if (!some) return reply;
      if (beyond_)
        std::memset(row, 0, 2);
      else
        std::memcpy(row, before, static_cast<size_t>(bytes));
      return reply;
    }

   private:
    const bool beyond_;
  };
  std::vector<Case> cases = cases_with(ATTN_FEATURE_RAGGED, 14, 40);
  for (Case& c : cases) c.poison = Poison::kNan;
  for (const bool beyond : {false, true}) {
    Slips slips(beyond);
    EXPECT_GT(expect_equal_verdicts(cases, slips), 0) << beyond;
  }
}

// A kernel may write neither to a slot without a key nor to an entry of the table that names no page.
TEST(BatchJudge, DoubtsWritesToPagesAsATrialDoes) {
  class Writes : public OracleTarget {
   public:
    explicit Writes(bool to_table) : to_table_(to_table) {}
    RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
                 const attn_env& env, int stream) override {
      const RunReply reply = OracleTarget::run(stage, p, t, plan, env, stream);
      if (p.page_size == 0) return reply;
      for (int64_t b = 0; b < p.batch; ++b) {
        const int64_t keys = key_length(p, t, b);
        auto* const row =
            static_cast<int64_t*>(const_cast<void*>(t.block_table.data)) + b * t.block_table.stride[0];
        const int64_t next = (keys + p.page_size - 1) / p.page_size;
        if (to_table_ && next < p.pages_per_seq) row[next] = 3;
        if (to_table_ || keys % p.page_size == 0) continue;
        const int64_t at = offset_of(t.k, row[keys / p.page_size], 0, keys % p.page_size, 0);
        if (p.dtype == ATTN_F32)
          static_cast<uint32_t*>(const_cast<void*>(t.k.data))[at] = 0;
        else
          static_cast<uint16_t*>(const_cast<void*>(t.k.data))[at] = 0;
      }
      return reply;
    }

   private:
    const bool to_table_;
  };
  const std::vector<Case> cases = cases_with(ATTN_FEATURE_PAGED, 10, 40);
  for (const bool to_table : {false, true}) {
    Writes writes(to_table);
    EXPECT_GT(expect_equal_verdicts(cases, writes), 0) << to_table;
  }
}

TEST(BatchJudge, DoubtsEveryCaseThatATrialFails) {
  // Case 0: one key more than a tile, grouped heads, different widths of K and V. Case 1: rows that see no key.
  // Case 2: splits, key lengths, a bias and a mask, and a second call on a dirty workspace. The others are
  // variants.
  std::vector<Case> cases(3);
  cases[0].problem.heads_q = 4;
  cases[0].problem.heads_kv = 2;
  cases[0].problem.seq_q = 6;
  cases[1].problem.seq_q = 19;
  for (Case& c : cases) {
    c.problem.seq_k = 17;
    c.problem.dim_qk = 5;
    c.problem.dim_v = 7;
    c.problem.causal = true;
    c.problem.align = ATTN_BOTTOM_RIGHT;
    c.q.kind = c.k.kind = c.v.kind = FillKind::kGaussian;
    c.q.seed = 1, c.k.seed = 2, c.v.seed = 3;
  }
  Problem& all = cases[2].problem;
  all.batch = all.heads_q = 2;
  all.seq_q = 5;
  all.causal = false;
  all.num_splits = 2;
  all.key_lengths = std::vector<int64_t>{17, 9};
  all.bias = Bias{.kind = BiasKind::kVeryNegative, .finite = {}, .broadcast = {.head = true}, .seed = 4};
  all.mask = Mask{.visible = {PatternKind::kRandom, 4, 5}, .broadcast = {.batch = true}};
  cases[2].calls = {attnfuzz::Call{}, attnfuzz::Call{.dirty_workspace = true, .stream = 1}};
  cases.push_back(cases[0]);
  cases.back().problem.dtype = ATTN_F32;
  for (const uint64_t n : {3, 8}) cases.push_back(laid_oddly(cases[n == 3 ? 0 : 2], n));
  for (const Flaw flaw :
       {Flaw::kDropsLastKey, Flaw::kWholeTileLost, Flaw::kHeadMap, Flaw::kAlignIgnored, Flaw::kLseBase,
        Flaw::kNanOnDeadRow, Flaw::kConstantAdded, Flaw::kWritesPast, Flaw::kSkipsLastRow, Flaw::kSkipsLse,
        Flaw::kWritesInput, Flaw::kPlanNonsense, Flaw::kBiasClipped, Flaw::kMaskBroadcast, Flaw::kLengthIgnored,
        Flaw::kWorkspaceTrusted}) {
    FakeTarget fake(flaw);
    fake.take_fp32();
    FakeBatchTarget device(fake);
    const Calibration calibration = documented();
    const std::vector<BatchCase> asked = by_reference(cases);
    const std::vector<Verdict> verdicts = BatchJudge(device, fake, calibration).judge(asked);
    int failures = 0;
    for (size_t i = 0; i < cases.size(); ++i) {
      const Verdict v = ordinary(asked[i], fake);
      EXPECT_EQ(verdicts[i].kind, v.kind)
          << to_string(flaw) << ": " << verdicts[i].message << " / " << v.message;
      failures += v.outcome == Outcome::kFail;
    }
    EXPECT_GT(failures, 0) << to_string(flaw);
  }
}

// Two batch entries of two heads, some keys hidden by lengths, values that differ.
Case two_entries(int64_t seq_q, int64_t dim_qk, int64_t dim_v, const std::vector<int64_t>& key_lengths,
                 int64_t seq_k) {
  Case c;
  Problem& p = c.problem;
  p.batch = p.heads_q = 2;
  p.seq_q = seq_q, p.seq_k = seq_k;
  p.dim_qk = dim_qk, p.dim_v = dim_v;
  p.key_lengths = key_lengths;
  c.q.kind = c.k.kind = c.v.kind = FillKind::kGaussian;
  c.q.seed = 1, c.k.seed = 2, c.v.seed = 3;
  return c;
}

TEST(BatchJudge, SaysOfRelationsWhatATrialDoes) {
  FakeTarget fake;
  const Case c = two_entries(3, 4, 3, {17, 18}, 18);
  EXPECT_GT(expect_equal_relations(c, fake), 20u);
}

struct Judged {
  Verdict verdict;  // by the batch
  Verdict alone;    // by a trial
  BatchUse use;
};

// Judges a kernel with this flaw in a batch of one case.
Judged judge_flaw(Flaw flaw, const char* property_name) {
  FakeTarget fake(flaw);
  FakeBatchTarget device(fake);
  const Calibration calibration = documented();
  Case c = two_entries(5, 8, 9, {33, 37}, 40);
  const Property* property = find_property(property_name);
  std::string why;
  EXPECT_TRUE(property->adapt(c, fake.info(), &why)) << why;
  BatchJudge batch_judge(device, fake, calibration);
  const BatchCase asked = {c, property};
  Verdict verdict = batch_judge.judge(std::span(&asked, 1))[0];
  return {std::move(verdict), ordinary(asked, fake), batch_judge.use()};
}

// Errors that no bound shows, but a relation does.
TEST(BatchJudge, DoubtsWhatARelationFails) {
  const std::pair<Flaw, const char*> flaws[] = {{Flaw::kBatchRounds, "permute_batch"},
                                                {Flaw::kHeadRounds, "permute_heads"},
                                                {Flaw::kHiddenKeyRounds, "future"},
                                                {Flaw::kLayoutRounds, "layout"}};
  for (const auto& [flaw, name] : flaws) {
    const Judged judged = judge_flaw(flaw, name);
    const Verdict& v = judged.verdict;
    EXPECT_EQ(v.kind, judged.alone.kind) << name;
    EXPECT_EQ(v.kind, Kind::kRelation) << name << ": " << v.message;
    EXPECT_EQ(judged.use.doubted, 1u) << name;
  }
}

// State that a kernel keeps between calls shows in `repeat`; plans that accept too much show in `contract`.
TEST(BatchJudge, DoubtsWhatRepeatAndContractFail) {
  struct Expected {
    Flaw flaw;
    const char* property;
    bool in_batch;  // the batch itself finds an error
  };
  for (const auto& [flaw, name, in_batch] : {Expected{Flaw::kKeepsPartials, "repeat", true},
                                             {Flaw::kCountsCalls, "repeat", true},
                                             {Flaw::kWorkspaceTrusted, "repeat", true},
                                             {Flaw::kAcceptsDims, "contract", false},
                                             {Flaw::kPlansIn32Bits, "contract", false}}) {
    const Judged judged = judge_flaw(flaw, name);
    const Verdict& v = judged.verdict;
    EXPECT_EQ(v.kind, judged.alone.kind) << to_string(flaw) << ": " << v.message;
    EXPECT_EQ(v.outcome, Outcome::kFail) << to_string(flaw);
    EXPECT_EQ(judged.use.doubted, in_batch ? 1u : 0u) << to_string(flaw);
    EXPECT_EQ(judged.use.left.count("plans that do not hold"), in_batch ? 0u : 1u) << to_string(flaw);
  }
}

}  // namespace
}  // namespace attnfuzz
