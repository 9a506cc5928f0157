// Tests which bits the properties of backward passes compare.
#include <gtest/gtest.h>

#include <cmath>

#include "properties/case/features/shrink_toggles.h"
#include "properties/judge/trial.h"
#include "tests/fuzz/batch/oracle_target.h"

namespace attnfuzz {
namespace {

// Computes gradients as the oracle does. From its second call on it rounds one output to the wrong side:
// elements of 16 bits to the other neighbour, those of fp32 by 2^-13. This is how a kernel behaves
// that rounds each head's dK, or each pair's dS, to fp16: in one of two calls the part is subnormal.
class OneStep final : public OracleTarget {
 public:
  OneStep(TensorId moved, int32_t head_format)
      : OracleTarget(nullptr, kBackward), moved_(moved), heads_(head_format) {}
  PlanReply plan(const attn_problem& p, const attn_tensors& t, const attn_env& env) override {
    PlanReply reply = OracleTarget::plan(p, t, env);
    reply.plan.ds_format = ATTN_FORMAT_F32, reply.plan.head_format = heads_;
    return reply;
  }
  RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
               const attn_env& env, int stream) override {
    const RunReply reply = OracleTarget::run(stage, p, t, plan, env, stream);
    if (calls_++ == 0) return reply;
    const Reference due = operation_of(p.features).evaluate(p, t, plan, documented(), {}, false);
    const Expected& of = due[moved_];
    const bool keys = of_keys(spec_of(moved_));
    const RowSpace rows = keys ? RowSpace(p.batch, p.heads_kv, p.seq_k) : RowSpace(p);
    const attn_tensor to = view_of(t, spec_of(moved_));
    for (int64_t row = 0; row < rows.count(); ++row) {
      const auto [b, h, i] = rows.at(row);
      for (int64_t c = 0; c < of.columns; ++c) {
        const double exact = of.value[static_cast<size_t>(row * of.columns + c)];
        const int64_t at = offset_of(to, b, h, i, c);
        if (moved_ == TensorId::kDbias)
          static_cast<float*>(to.data)[at] = static_cast<float>(exact * (1 + 0x1p-13));
        else if (exact != 0)
          move(exact, static_cast<uint16_t*>(to.data) + at);
      }
    }
    return reply;
  }

 private:
  static void move(double exact, uint16_t* bits) {
    *bits = static_cast<uint16_t>(*bits + (std::abs(decode(ATTN_F16, bits, 0)) < std::abs(exact) ? 1 : -1));
  }
  const TensorId moved_;
  const int32_t heads_;
  int calls_ = 0;
};

Case gradients(int64_t group, bool biased) {
  Case c;
  operation_of(ATTN_FEATURE_BACKWARD).shape(c, OracleTarget::kBackward);
  Problem& p = c.problem;
  p.features = ATTN_FEATURE_BACKWARD | (biased ? ATTN_FEATURE_DBIAS : 0);
  p.dtype = ATTN_F16;
  p.batch = p.heads_kv = 1, p.heads_q = group;
  p.seq_q = p.seq_k = 5, p.dim_qk = p.dim_v = 4;
  if (biased) p.bias = Bias{.dtype = ATTN_F32, .kind = BiasKind::kZero, .broadcast = {.query = group > 1}};
  for (Fill* fill : {&c.q, &c.k, &c.v}) *fill = {.kind = FillKind::kGaussian, .seed = 3};
  c.dout = {.kind = FillKind::kSmallInt, .seed = 3};
  tidy(c);
  return c;
}

Verdict judged(const Case& c, TensorId moved, int32_t head_format) {
  OneStep target(moved, head_format);
  return judge(c, *find_property("bwd_pow2"), target, documented());
}

TEST(BackwardRelations, Pow2ComparesNoBitsOfSumsOverRoundedHeads) {
  for (const TensorId t : {TensorId::kDk, TensorId::kDv}) {
    for (const int32_t format : {ATTN_FORMAT_UNKNOWN, ATTN_FORMAT_OF_INPUT}) {
      const Verdict v = judged(gradients(4, false), t, format);
      EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
      EXPECT_TRUE(v.by_bits) << "of dQ";
    }
    EXPECT_EQ(judged(gradients(1, false), t, ATTN_FORMAT_OF_INPUT).outcome, Outcome::kFail)
        << "a head is a sum of its own";
    EXPECT_EQ(judged(gradients(4, false), t, ATTN_FORMAT_F32).outcome, Outcome::kFail);
  }
}

TEST(BackwardRelations, Pow2ComparesNoBitsOfSumsOverRoundedPairs) {
  const Verdict v = judged(gradients(4, true), TensorId::kDbias, ATTN_FORMAT_OF_INPUT);
  EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
  EXPECT_EQ(judged(gradients(1, true), TensorId::kDbias, ATTN_FORMAT_OF_INPUT).outcome, Outcome::kFail)
      << "an element of one pair";
  EXPECT_EQ(judged(gradients(4, true), TensorId::kDbias, ATTN_FORMAT_F32).outcome, Outcome::kFail);
}

}  // namespace
}  // namespace attnfuzz
