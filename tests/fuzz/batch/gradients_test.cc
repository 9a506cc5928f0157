// Tests batches of backward passes on the CPU executor. The kernels are OracleTarget, right or with a known
// flaw.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "properties/case/codec/as_contract.h"
#include "properties/draw/generator.h"
#include "properties/operations/operation.h"
#include "tests/fuzz/batch/fake_batch_target.h"
#include "tests/fuzz/batch/looks.h"
#include "tests/fuzz/batch/oracle_target.h"
#include "tests/fuzz/batch/same_as_alone.h"

namespace attnfuzz {
namespace {

const Operation& backward() { return operation_of(ATTN_FEATURE_BACKWARD); }

// Drawn backward passes that a batch takes, each changed by `change` and then still one.
std::vector<Case> passes(size_t count, int64_t most_rows,
                         const std::function<void(Case&, uint64_t)>& change = {}) {
  GeneratorConfig config;
  config.work = 60'000;
  config.features = OracleTarget::kBackward;
  std::vector<Case> cases;
  for (uint64_t n = 0; cases.size() < count && n < 20'000; ++n) {
    Case c = draw(config, 14, n);
    make_call(backward(), c, config.features);
    if (n % 3 == 0) c.problem.dtype = ATTN_F32, c.planted.clear();
    if (change) change(c, n);
    const Problem& p = c.problem;
    std::string why;
    if (p.batch * p.heads_q * p.seq_q > most_rows || p.seq_k > 100 || illegal(c)) continue;
    if (batch::prepare(c, ATTN_CPU, &why)) cases.push_back(std::move(c));
  }
  EXPECT_EQ(cases.size(), count);
  return cases;
}

// Gives the case a remap like those of the relations, dO that is repeated, and numbers planted in it.
void remap(Case& c, uint64_t n) {
  const Problem& p = c.problem;
  c.dout_repeated.column = n % 2 == 0, c.dout_repeated.head = n % 3 == 0;
  if (n % 4 < 2) c.remap.batch = Axis{.multiply = -1, .add = p.batch - 1, .modulus = p.batch};
  if (n % 4 > 0) c.remap.query.add = 1, c.remap.head_q.add = 2, c.remap.head_kv.add = 1;
  if (n % 2 == 1) c.planted = {{TensorId::kDout, 0, 0, 1, 0, 0x3e00}};
  if (n % 4 == 1) c.planted.push_back({TensorId::kDlse, 0, 0, 1, 0, 0x40400000});
}

// Lets keys stand for blocks, with a length of any number of positions in every second case.
void give_blocks(Case& c, uint64_t n) {
  Problem& p = c.problem;
  p.key_step = 1 + static_cast<int64_t>(n % 3), p.key_offset = 3;
  p.causal = n % 4 > 0;
  p.key_lengths.reset();
  if (n % 2 == 0) return;
  p.key_lengths.emplace();
  for (int64_t b = 0; b < p.batch; ++b)
    p.key_lengths->push_back((static_cast<int64_t>(n) + 5 * b) % (most_positions(p, p.seq_k) + 2));
}

// Asks for dbias, in every format and summed over each dimension.
void give_bias(Case& c, uint64_t n) {
  c.problem.features |= ATTN_FEATURE_DBIAS;
  Bias& bias = c.problem.bias.emplace(Bias{.kind = BiasKind::kGaussian, .seed = n});
  bias.dtype = n % 3 == 0 ? +ATTN_F32 : n % 3 == 1 ? +ATTN_F16 : +ATTN_BF16;
  bias.broadcast = {.batch = n % 2 == 0, .head = n % 4 < 2, .query = n % 8 < 4};
}

TEST(BatchOfGradients, LaysOutWhatLaidOutDoes) {
  std::vector<Case> cases = passes(90, 300);
  for (const auto& change :
       {std::function<void(Case&, uint64_t)>(remap), {[](Case& c, uint64_t n) { c = laid_oddly(c, n); }}})
    for (Case& c : passes(60, 200, change)) cases.push_back(std::move(c));
  Looks looks(OracleTarget::kBackward);
  FakeBatchTarget device(looks);
  std::map<std::string, int> seen;
  for (const Case& c : cases) {
    const batch::Call call = looks.look(c, device);
    if (HasFailure()) FAIL() << describe(c);
    seen["packed queries"] += c.problem.packed_q.has_value();
    seen["dLSE"] += is_present(c, TensorId::kDlse);
    seen["sinks"] += is_present(c, TensorId::kDsink);
    seen["planted in dO"] +=
        std::ranges::any_of(c.planted, [](const Planted& x) { return x.tensor == TensorId::kDout; });
    seen["repeated dO"] += c.dout_repeated != Repeated{};
    seen["spread"] += (call.spread >> batch::kDout) != 0;
    seen["dbias"] += is_present(c, TensorId::kDbias);
    seen["keys of blocks"] += has_key_blocks(c.problem);
    seen["keys of blocks, with lengths"] += has_key_blocks(c.problem) && c.problem.key_lengths;
  }
  for (const auto& [what, count] : seen) EXPECT_GE(count, 10) << what;
  EXPECT_GT(looks.values, 10'000u);
  EXPECT_LT(looks.other_bits, 3u);
}

TEST(BatchOfGradients, SaysOfARightKernelWhatATrialDoes) {
  OracleTarget right(nullptr, OracleTarget::kBackward);
  std::vector<Case> cases = passes(80, 40);
  for (Case& c : passes(20, 40, [](Case& c, uint64_t n) { c = laid_oddly(c, n); }))
    cases.push_back(std::move(c));
  for (const int64_t batch : {2, 0}) {
    Case& none = cases.emplace_back(cases[1]);
    none.problem.batch = batch;
    none.problem.packed_q.reset(), none.problem.packed_k.reset(), none.problem.key_lengths.reset();
    if (batch > 0) none.problem.seq_q = 0;
    none.planted.clear();
  }
  EXPECT_EQ(expect_equal_verdicts(cases, right), 0);
}

// Each kernel misreads one input, or writes what it may not. The batch must find it in the same cases as a
// trial.
TEST(BatchOfGradients, DoubtsWhatATrialFails) {
  const OracleTarget::Misreads all[] = {
      [](attn_problem& p, attn_tensors&) { p.scale *= 1.02f; },
      [](attn_problem& p, attn_tensors&) { p.key_offset /= 2; },
      [](attn_problem& p, attn_tensors&) { p.features &= ~ATTN_FEATURE_DLSE; },
      [](attn_problem&, attn_tensors& t) {  // the sink of the first head for all heads
        t.sink.stride[1] = 0;
      },
      [](attn_problem&, attn_tensors& t) {  // dbias is summed over the queries
        t.dbias.stride[2] = 0;
      },
      [](attn_problem&, attn_tensors& t) { t.dout.stride[2] = 0; },
      [](attn_problem&, attn_tensors& t) { t.lse.stride[2] = 0; },
      [](attn_problem&, attn_tensors& t) { std::swap(t.o, t.dout); }};
  std::vector<Case> cases = passes(60, 40);
  for (Case& c : passes(20, 40, give_blocks)) cases.push_back(std::move(c));
  for (Case& c : passes(20, 40, give_bias)) cases.push_back(std::move(c));
  for (const auto misreads : all) {
    OracleTarget wrong(misreads, OracleTarget::kBackward);
    EXPECT_GT(expect_equal_verdicts(cases, wrong), 3);
  }
}

// Changes one element of a tensor after a right call.
class Writes : public OracleTarget {
 public:
  enum class Where { kSavedO, kDlse, kBeforeDq, kBehindDv, kDq, kDk, kDv, kDbias, kDsink };
  explicit Writes(Where where) : OracleTarget(nullptr, kBackward), where_(where) {}
  RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
               const attn_env& env, int stream) override {
    const RunReply reply = OracleTarget::run(stage, p, t, plan, env, stream);
    if (p.batch * p.heads_q * p.seq_q * p.seq_k == 0) return reply;
    const auto flip = [](const attn_tensor& of, int64_t bytes) {
      auto* const at = static_cast<std::byte*>(of.data) + bytes;
      *at = ~*at;
    };
    const int64_t bytes = p.dtype == ATTN_F32 ? 4 : 2;
    if (where_ == Where::kDq) flip(t.dq, bytes - 1);
    if (where_ == Where::kDk) flip(t.dk, bytes - 1);
    if (where_ == Where::kDv) flip(t.dv, bytes - 1);
    if (where_ == Where::kDbias && t.dbias.data) flip(t.dbias, p.bias_dtype == ATTN_F32 ? 3 : 1);
    if (where_ == Where::kDsink && t.dsink.data) flip(t.dsink, 3);
    if (where_ == Where::kSavedO) flip(t.o, 0);
    if (where_ == Where::kDlse && t.dlse.data) flip(t.dlse, 0);
    if (where_ == Where::kBeforeDq) flip(t.dq, -1);
    if (where_ == Where::kBehindDv) flip(t.dv, p.dim_v * bytes);
    return reply;
  }

 private:
  const Where where_;
};

TEST(BatchOfGradients, DoubtsWritesAsATrialDoes) {
  std::vector<Case> cases = passes(40, 40);
  for (Case& c : cases)
    for (TensorLayout& layout : c.layout)
      layout.placement = Placement::kGuarded;  // so that each write has a place
  using enum Writes::Where;
  for (const auto where : {kSavedO, kDlse, kBeforeDq, kBehindDv, kDq, kDk, kDv, kDbias, kDsink}) {
    Writes wrong(where);
    EXPECT_GE(expect_equal_verdicts(cases, wrong), 3) << static_cast<int>(where);
  }
}

// A kernel that writes one gradient elsewhere. The gradients may be anything, so only their poison shows it.
TEST(BatchOfGradients, DoubtsAnUnwrittenGradientAsATrialDoes) {
  static attn_tensor attn_tensors::* left;
  class Leaves : public OracleTarget {
   public:
    Leaves() : OracleTarget(nullptr, kBackward) {}
    RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
                 const attn_env& env, int stream) override {
      attn_tensors mine = t;
      uint32_t elsewhere = 0;
      (mine.*left).data = &elsewhere, std::fill_n((mine.*left).stride, 4, 0);
      return OracleTarget::run(stage, p, mine, plan, env, stream);
    }
  };
  Case c;
  c.problem.features = ATTN_FEATURE_BACKWARD | ATTN_FEATURE_DBIAS | ATTN_FEATURE_DSINK;
  c.problem.bias.emplace();
  c.problem.sink.emplace();
  c.problem.seq_k = 3;
  c.poison = Poison::kNan;
  c.planted = {{TensorId::kDout, 0, 0, 0, 0, 0x7c00}};  // infinity
  for (const auto output :
       {&attn_tensors::dq, &attn_tensors::dk, &attn_tensors::dv, &attn_tensors::dbias, &attn_tensors::dsink}) {
    left = output;
    Leaves leaves;
    EXPECT_EQ(expect_equal_verdicts({c, c}, leaves), 2);  // the first is judged both ways
  }
}

// Values, bounds, rules and states are those of the CPU's oracle on the inputs that the kernel got.
TEST(BatchOfGradients, EvaluatesWhatTheCpuDoes) {
  Keeps keeps(OracleTarget::kBackward);
  FakeBatchTarget device(keeps);
  const auto with_sinks = [](Case& c, uint64_t) {
    c.problem.features |= ATTN_FEATURE_DSINK;
    c.problem.sink = Sink{.kind = SinkKind::kAbove};
  };
  std::vector<Case> cases = passes(30, 60);
  for (Case& c : passes(40, 60, give_bias)) cases.push_back(std::move(c));
  for (Case& c : passes(30, 60, with_sinks)) cases.push_back(std::move(c));
  for (Case& c : passes(30, 60, give_blocks)) cases.push_back(std::move(c));
  int absent = 0;
  for (const Case& c : cases) {
    const batch::Call call = keeps.compare_with(c, device);
    absent += call.packed_q != 0 && is_present(c, TensorId::kDsink) &&
              std::ranges::count(keeps.due.state, RowState::kAbsent) > 0;
  }
  EXPECT_GT(absent, 3);
}

TEST(BatchOfGradients, SaysOfRelationsWhatATrialDoes) {
  OracleTarget right(nullptr, OracleTarget::kBackward);
  Case c;
  Problem& p = c.problem;
  p.features = ATTN_FEATURE_BACKWARD;
  p.batch = 2, p.heads_q = 4, p.heads_kv = 2;
  p.seq_q = 3, p.seq_k = 18;
  p.dim_qk = 4, p.dim_v = 3;
  p.key_lengths = std::vector<int64_t>{17, 18};
  c.q.kind = c.k.kind = c.v.kind = c.dout.kind = FillKind::kGaussian;
  c.q.seed = 1, c.k.seed = 2, c.v.seed = 3, c.dout.seed = 4;
  EXPECT_GT(expect_equal_relations(c, right), 5u);
}

TEST(BatchOfGradients, CountsNonFiniteInputs) {
  OracleTarget right(nullptr, OracleTarget::kBackward);
  Case c;
  c.problem.features = ATTN_FEATURE_BACKWARD | ATTN_FEATURE_DLSE;
  c.problem.seq_q = c.problem.seq_k = c.problem.dim_v = 5;
  c.calls.resize(2);  // counted once
  c.planted = {{TensorId::kDout, 0, 0, 3, 1, 0x7c00}, {TensorId::kDlse, 0, 0, 2, 0, 0x7fc00000}};
  FakeBatchTarget device(right);
  const Calibration calibration = documented();
  BatchJudge(device, right, calibration).judge(by_reference({c}));
  EXPECT_EQ(device.not_finite, 2u);
}

TEST(BatchOfGradients, RefusesByName) {
  Case c = passes(1, 40)[0];
  std::string why;
  c.problem.features |= uint64_t{1} << 62;
  EXPECT_FALSE(batch::prepare(c, ATTN_CPU, &why));
  EXPECT_EQ(why,
            "a batch of backward passes on a GPU does not know this kind of problem: attn_problem.features has "
            "the bits 0x4000000000000000");
  c.problem.features &= ~(uint64_t{1} << 62);
  std::optional<batch::Call> call = batch::prepare(c, ATTN_CPU, &why);
  ASSERT_TRUE(call);
  OracleTarget right(nullptr, OracleTarget::kBackward);
  FakeBatchTarget device(right);
  batch::Result result;
  ASSERT_EQ(device.plan({&*call, 1}, {&result, 1}), "");
  attn_plan plan = result.plan;
  plan.saved = ATTN_SAVED_RECOMPUTED;
  std::vector<Assumption> assumptions;
  EXPECT_FALSE(batch::add_plan(c, plan, documented(), &*call, &assumptions, &why));
  EXPECT_EQ(why, "a backward pass that computes O and the LSE anew");
}

}  // namespace
}  // namespace attnfuzz
