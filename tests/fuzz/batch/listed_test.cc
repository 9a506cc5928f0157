// Tests batches of listed blocks and of their gradients on the CPU executor. The kernels are OracleTarget,
// right or with a known flaw.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "properties/case/words.h"
#include "properties/draw/covering.h"
#include "properties/draw/draw.h"
#include "properties/draw/generator.h"
#include "tests/fuzz/batch/looks.h"

namespace attnfuzz {
namespace {

using Change = std::function<void(Case&, uint64_t)>;

constexpr uint64_t kForms =
                       ATTN_FEATURE_F32 | ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32 | ATTN_FEATURE_NO_FORWARD,
                   kLists = ATTN_FEATURE_SELECTED | ATTN_FEATURE_WIDE | kForms,
                   kGradients = ATTN_FEATURE_SELECTED_BACKWARD | ATTN_FEATURE_DLSE | kForms;

// Case number n of the operation that a kernel with these features has.
Case listed(uint64_t features, int64_t work, uint64_t n) {
  GeneratorConfig config;
  config.work = work;
  config.features = features;
  Case c = draw(config, 15, n);
  make_call(operation_of(features & kOperations), c, features);
  return c;
}

// Drawn cases that a batch takes, each changed by `change`.
std::vector<Case> cases_of(uint64_t features, size_t count, int64_t most_rows, const Change& change = {}) {
  std::vector<Case> cases;
  for (uint64_t n = 0; cases.size() < count && n < 20'000; ++n) {
    Case c = listed(features, 60'000, n);
    if (n % 3 == 0) c.problem.dtype = ATTN_F32, c.planted.clear();
    if (change) change(c, n);
    const Problem& p = c.problem;
    std::string why;
    if (p.batch * p.heads_q * p.seq_q > most_rows || p.seq_k > 300 || illegal(c)) continue;
    if (batch::prepare(c, ATTN_CPU, &why)) cases.push_back(std::move(c));
  }
  EXPECT_EQ(cases.size(), count);
  return cases;
}

// Gives the case a remap like those of the relations.
void move_lists(Case& c, uint64_t n) {
  if (n % 4 < 2) c.remap.batch = Axis{.multiply = -1, .add = c.problem.batch - 1, .modulus = c.problem.batch};
  if (n % 4 > 0) c.remap.query.add = 1, c.remap.head_q.add = 2, c.remap.head_kv.add = 1;
  if (n % 3 == 1) c.remap.query.modulus = Axis::kKeyLength;
}

void lay_oddly(Case& c, uint64_t n) { c = laid_oddly(c, n); }

TEST(BatchOfLists, LaysOutWhatLaidOutDoes) {
  std::map<std::string, int> seen;
  for (const uint64_t features : {kLists, kGradients}) {
    std::vector<Case> cases = cases_of(features, 80, 300);
    for (const Change& change : {Change(move_lists), Change(lay_oddly)})
      for (Case& c : cases_of(features, 40, 200, change)) cases.push_back(std::move(c));
    Looks looks(features);
    FakeBatchTarget device(looks);
    for (const Case& c : cases) {
      const batch::Call call = looks.look(c, device);
      if (HasFailure()) FAIL() << describe(c);
      const Selection& selection = c.problem.selection;
      ++seen["kind " + std::to_string(static_cast<int>(selection.kind))];
      seen["-1"] += selection.holes > 0;
      seen["-1 at the front"] += selection.leading;
      seen["empty lists"] += selection.empty > 0;
      seen["ascending"] += selection.order == 1;
      seen["shuffled"] += selection.order > 1;
      seen["key by key"] += selection.tokens;
      seen["long lists"] += c.problem.select() > 32;
      seen["32 bits"] += c.problem.index_dtype == ATTN_INDEX_32;
      seen["packed queries"] += c.problem.packed_q.has_value();
      seen["packed keys"] += c.problem.packed_k.has_value();
      seen["key lengths"] += c.problem.key_lengths.has_value();
      seen["spread lists"] += call.spread >> batch::kListed & 1;
      seen["lists that end with their page"] += call.at_page_end >> batch::kListed & 1;
      seen["rows of no entry"] += c.problem.packed_q && c.problem.packed_q->slack > 0;
    }
    EXPECT_LT(looks.other_bits, 3u);
  }
  for (const auto& [what, count] : seen) EXPECT_GE(count, 8) << what;
  EXPECT_EQ(std::ranges::count_if(seen, [](const auto& one) { return one.first.starts_with("kind"); }),
            kSelectionKinds);
}

// A kernel may take listed keys in any order, so what its plan says of their order must not sharpen a bound.
void declare_order(attn_plan& plan) {
  plan.key_order = ATTN_KEYS_ASCENDING, plan.max_rule = ATTN_MAX_RUNNING, plan.sum_lanes = 4;
  plan.sum_rule = ATTN_SUM_OF_EXP, plan.p_format = ATTN_FORMAT_OF_INPUT;
}

TEST(BatchOfLists, EvaluatesWhatTheCpuDoes) {
  for (const uint64_t features : {kLists, kGradients}) {
    Keeps keeps(features);
    FakeBatchTarget device(keeps);
    int absent = 0, dead = 0;
    for (const Case& c : cases_of(features, 70, 60)) {
      for (const auto change : {static_cast<void (*)(attn_plan&)>(nullptr), declare_order})
        keeps.compare_with(c, device, change);
      absent += std::ranges::count(keeps.due.state, RowState::kAbsent) > 0;
      dead += keeps.due.dead > 0;
    }
    EXPECT_GT(absent, 3);
    EXPECT_GT(dead, 10);
  }
}

TEST(BatchOfLists, SaysOfARightKernelWhatATrialDoes) {
  for (const uint64_t features : {kLists, kGradients}) {
    OracleTarget right(nullptr, features);
    std::vector<Case> cases = cases_of(features, 130, 40);
    for (const Change& change : {Change(move_lists), Change(lay_oddly)})
      for (Case& c : cases_of(features, 25, 40, change)) cases.push_back(std::move(c));
    for (const int64_t batch : {2, 0}) {
      Case& none = cases.emplace_back(cases[1]);
      none.problem.batch = batch;
      none.problem.packed_q.reset(), none.problem.packed_k.reset(), none.problem.key_lengths.reset();
      if (batch > 0) none.problem.seq_q = 0;
      none.planted.clear();
    }
    ASSERT_LT(cases.size(), batch::kMostCalls + 1);
    EXPECT_EQ(expect_equal_verdicts(cases, right), 0);
  }
}

// Each kernel misreads the lists or what they are read with. The batch must find it in the same cases as a
// trial.
TEST(BatchOfLists, DoubtsWhatATrialFails) {
  const OracleTarget::Misreads all[] = {
      [](attn_problem& p, attn_tensors&) { ++p.block; },
      [](attn_problem& p, attn_tensors&) { p.select = std::max<int64_t>(p.select - 1, 1); },
      [](attn_problem& p, attn_tensors&) { p.causal = !p.causal; },
      [](attn_problem&, attn_tensors& t) { t.indices.stride[1] = 0; },
      [](attn_problem&, attn_tensors& t) { t.indices.stride[2] = 0; },
      [](attn_problem& p, attn_tensors& t) { t.indices.stride[3] *= p.select > 1 ? 0 : 1; },
      [](attn_problem& p, attn_tensors&) { p.scale *= 1.05f; }};
  for (const uint64_t features : {kLists, kGradients}) {
    const std::vector<Case> cases = cases_of(features, 50, 40);
    for (size_t n = 0; n < std::size(all); ++n) {
      OracleTarget wrong(all[n], features);
      EXPECT_GT(expect_equal_verdicts(cases, wrong), 0) << n;
    }
  }
}

// Changes an index after a right call: the first one, or one of a row that belongs to no packed entry.
TEST(BatchOfLists, DoubtsWritesToListsAsATrialDoes) {
  class Writes : public OracleTarget {
   public:
    Writes(uint64_t features, bool beyond) : OracleTarget(nullptr, features), beyond_(beyond) {}
    RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
                 const attn_env& env, int stream) override {
      const RunReply reply = OracleTarget::run(stage, p, t, plan, env, stream);
      const bool packed = (p.ragged & ATTN_RAGGED_QUERIES) != 0;
      const int64_t row = beyond_ && packed ? Sequences(p, t).queries.owned() : 0,
                    rows = packed ? p.total_q : p.seq_q;
      if (p.batch * p.heads_kv == 0 || row >= rows || (beyond_ && !packed)) return reply;
      auto* const at = static_cast<std::byte*>(const_cast<void*>(t.indices.data)) +
                       row * t.indices.stride[2] * (p.index_dtype == ATTN_INDEX_32 ? 4 : 8);
      *at = ~*at;
      return reply;
    }

   private:
    const bool beyond_;
  };
  for (const uint64_t features : {kLists, kGradients}) {
    const std::vector<Case> cases = cases_of(features, 60, 40);
    for (const bool beyond : {false, true}) {
      Writes wrong(features, beyond);
      EXPECT_GT(expect_equal_verdicts(cases, wrong), beyond ? 1 : 30);
    }
  }
}

TEST(BatchOfLists, SaysOfRelationsWhatATrialDoes) {
  Case c;
  Problem& p = c.problem;
  p.batch = 2, p.heads_q = 4, p.heads_kv = 2;
  p.seq_q = 3, p.seq_k = 18;
  p.dim_qk = 4, p.dim_v = 3;
  p.key_lengths = std::vector<int64_t>{17, 18};
  p.selection = {.block = 2, .select = 4, .kind = SelectionKind::kSpread, .seed = 7, .order = 3};
  c.q.kind = c.k.kind = c.v.kind = FillKind::kGaussian;
  c.q.seed = 1, c.k.seed = 2, c.v.seed = 3;
  for (const uint64_t features : {kLists, kGradients}) {
    OracleTarget right(nullptr, features);
    p.features = features & kOperations;
    if (features == kGradients) c.dout = {.kind = FillKind::kGaussian, .seed = 4};
    ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
    EXPECT_GT(expect_equal_relations(c, right), 3u);
  }
}

// As `check --batch` draws them on a GPU. Without `in_batches`, 60 of 1,500 cases have too many rows that lie
// far apart.
TEST(BatchOfLists, LeavesFewDrawnCasesToTheOrdinaryWay) {
  for (const uint64_t features : {kLists, kGradients}) {
    GeneratorConfig config;
    config.features = features;
    config.on_gpu = config.in_batches = true;
    config.work = kGpuWork;
    config.covering = std::make_shared<Covering>(config);
    std::map<std::string, int> left;
    int of = 0, all = 0;
    for (uint64_t n = 0; n < 1500; ++n) {
      Case c = draw(config, 1, n);
      make_call(operation_of(features & kOperations), c, features);
      if (illegal(c)) continue;
      std::string why;
      ++of;
      if (!batch::prepare(c, ATTN_CUDA, &why)) ++left[why], ++all;
    }
    for (const auto& [why, count] : left) std::printf("  left of %d, %s: %d\n", of, why.c_str(), count);
    EXPECT_GT(of, 1400);
    EXPECT_LT(all, of / 75);
  }
}

TEST(BatchOfLists, RefusesByName) {
  const auto refusal = [](const Case& c) {
    std::string why;
    EXPECT_FALSE(batch::prepare(c, ATTN_CPU, &why));
    return why;
  };
  for (const uint64_t features : {kLists, kGradients}) {
    const Case taken = cases_of(features, 1, 40)[0];
    Case c = taken;
    c.problem.features |= uint64_t{1} << 62;
    EXPECT_EQ(refusal(c), std::string(features == kLists ? "a batch of listed blocks on a GPU"
                                                         : "a batch of gradients over listed blocks on a GPU") +
                              " does not know this kind of problem: attn_problem.features has the bits "
                              "0x4000000000000000");
    c = taken;
    c.problem.selection = {.select = 4097};
    EXPECT_EQ(refusal(c), "lists of more than 4,096 numbers");
  }
  Case large;
  large.problem.features = ATTN_FEATURE_SELECTED;
  large.problem.seq_q = large.problem.seq_k = 8193;
  large.problem.selection.select = 1;
  EXPECT_EQ(refusal(large), "lists over more than 67 million keys in all");
}

TEST(BatchOfLists, LeavesAKernelThatComputesOAnew) {
  const Case c = cases_of(kGradients, 1, 40)[0];
  OracleTarget right(nullptr, kGradients);
  FakeBatchTarget device(right);
  std::string why;
  std::optional<batch::Call> call = batch::prepare(c, ATTN_CPU, &why);
  ASSERT_TRUE(call) << why;
  batch::Result result;
  ASSERT_EQ(device.plan({&*call, 1}, {&result, 1}), "");
  result.plan.saved = ATTN_SAVED_RECOMPUTED;
  std::vector<Assumption> assumptions;
  EXPECT_FALSE(batch::add_plan(c, result.plan, documented(), &*call, &assumptions, &why));
  EXPECT_EQ(why, "a backward pass that computes O and the LSE anew");
}

}  // namespace
}  // namespace attnfuzz
