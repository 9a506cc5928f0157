// Kernels whose plans say something about their LSE.
#pragma once

#include "tests/fuzz/batch/oracle_target.h"

namespace attnfuzz {

// A merge whose plan writes 0 as the LSE of a query without keys. Two sides without keys give -inf all the same;
// `zero`: 0, which is wrong.
class MergesDead final : public OracleTarget {
 public:
  explicit MergesDead(bool zero = false) : OracleTarget(nullptr, kMerge), zero_(zero) {}
  PlanReply plan(const attn_problem& p, const attn_tensors& t, const attn_env& env) override {
    PlanReply reply = OracleTarget::plan(p, t, env);
    reply.plan.lse_dead = ATTN_LSE_DEAD_ZERO;
    return reply;
  }
  RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
               const attn_env& env, int stream) override {
    const RunReply reply = OracleTarget::run(stage, p, t, plan, env, stream);
    const RowSpace rows(p);
    for (int64_t row = 0; zero_ && t.lse.data != nullptr && row < rows.count(); ++row) {
      const auto [b, h, i] = rows.at(row);
      float& lse = static_cast<float*>(t.lse.data)[offset_of(t.lse, b, h, i, 0)];
      if (std::isinf(lse)) lse = 0;
    }
    return reply;
  }

 private:
  const bool zero_;
};

// Attention whose LSE leaves the sink out, as its plan says.
class LeavesSinkOut final : public OracleTarget {
 public:
  PlanReply plan(const attn_problem& p, const attn_tensors& t, const attn_env& env) override {
    PlanReply reply = OracleTarget::plan(p, t, env);
    reply.plan.lse_sink = 1;
    return reply;
  }
};

}  // namespace attnfuzz
