// A kernel in this process that takes every kind of problem: it evaluates the oracle and rounds the result. Given
// `misreads`, it changes its copy of the problem or the tensors first, and is wrong.
//
//   OracleTarget right;
//   OracleTarget wrong([](attn_problem& p, attn_tensors&) { p.has_alibi = 0; });
#pragma once

#include <cmath>
#include <limits>
#include <utility>

#include "properties/operations/operation.h"
#include "reference/call/sequences.h"
#include "reference/numbers/formats.h"
#include "reference/rows/visibility.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {

class OracleTarget : public FakeTarget {
 public:
  static constexpr uint64_t kForward = ATTN_FEATURE_F32 | ATTN_FEATURE_SINK | ATTN_FEATURE_WIDE |
                                       ATTN_FEATURE_LATENT | ATTN_FEATURE_ALIBI | ATTN_FEATURE_RAGGED |
                                       ATTN_FEATURE_INDEX32 | ATTN_FEATURE_PAGED;
  static constexpr uint64_t kBatched = kForward | ATTN_FEATURE_KEY_STEP;  // that a batch takes
  static constexpr uint64_t kBackward = ATTN_FEATURE_BACKWARD | ATTN_FEATURE_DLSE | ATTN_FEATURE_DBIAS |
                                        ATTN_FEATURE_DSINK | ATTN_FEATURE_F32 | ATTN_FEATURE_SINK |
                                        ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32 | ATTN_FEATURE_KEY_STEP |
                                        ATTN_FEATURE_NO_FORWARD;
  static constexpr uint64_t kMerge = ATTN_FEATURE_MERGE | ATTN_FEATURE_F32 | ATTN_FEATURE_NO_FORWARD;
  // Changes the kernel's copies of its arguments.
  using Misreads = void (*)(attn_problem& p, attn_tensors& t);
  explicit OracleTarget(Misreads misreads = nullptr, uint64_t features = kForward)
      : FakeTarget(Flaw::kNone, /*stages=*/false), misreads_(misreads) {
    take_features(features);
  }

  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
    attn_problem small = problem;  // FakeTarget refuses wide heads, and tensors that other operations lack
    small.batch = 0;
    small.num_splits = is_merge(problem) ? 1 : problem.num_splits;
    small.dim_qk = std::min<int64_t>(problem.dim_qk, 256), small.dim_v = std::min<int64_t>(problem.dim_v, 256);
    return FakeTarget::plan(small, tensors, env);
  }

  RunReply run(Stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env&, int) override {
    attn_problem p = problem;
    attn_tensors t = tensors;
    if (misreads_) misreads_(p, t);
    const Operation& operation = operation_of(p.features);
    const Reference due = operation.evaluate(p, t, plan, documented(), {}, false);
    for (const Output& output : operation.outputs) {
      const attn_tensor view = view_of(tensors, spec_of(output.tensor));
      if (!view.data) continue;
      if (output.kind == OutputKind::kBounded)
        write(p, t, due, due[output.tensor], view);
      else
        write_indices(p, t, due, due[output.tensor], view);
    }
    return {};
  }

 private:
  static bool is_merge(const attn_problem& p) { return (p.features & ATTN_FEATURE_MERGE) != 0; }
  static double value_of(const Expected& of, size_t at) {
    const auto rule = static_cast<Due>(of.rule[at]);
    return rule == Due::kNumber ? of.value[at] : rule == Due::kMustBeNaN ? std::nan("") : 0;
  }

  // Indices have the axes (batch entry, KV head, query, place).
  static void write_indices(const attn_problem& p, const attn_tensors& t, const Reference& due, const Expected& of,
                            const attn_tensor& to) {
    const RowSpace rows(p.batch, p.heads_kv, p.seq_q);
    const Sequences sequences(p, t);
    for (int64_t row = 0; row < rows.count(); ++row) {
      if (due.state[static_cast<size_t>(row)] == RowState::kAbsent) continue;
      const Row at = rows.at(row);
      const StoredRow stored = sequences.query_row(at.b, at.i);
      for (int64_t c = 0; c < of.columns; ++c) {
        const int64_t value = of.integer[static_cast<size_t>(row * of.columns + c)],
                      offset = offset_of(to, stored.entry, at.h, stored.row, c);
        if (p.index_dtype == ATTN_INDEX_32)
          static_cast<int32_t*>(to.data)[offset] = static_cast<int32_t>(value);
        else
          static_cast<int64_t*>(to.data)[offset] = value;
      }
    }
  }

  static void write(const attn_problem& p, const attn_tensors& t, const Reference& due, const Expected& of,
                    const attn_tensor& to) {
    const bool keys = of_keys(spec_of(of.tensor)), scores = of.tensor == TensorId::kBlockScores;
    const bool heads = of.tensor == TensorId::kDsink, biased = of.tensor == TensorId::kDbias;
    const RowSpace rows = keys     ? RowSpace(p.batch, p.heads_kv, p.seq_k)
                          : heads  ? RowSpace(1, p.heads_q, 1)
                          : scores ? RowSpace(p.batch, p.heads_kv, p.seq_q)
                                   : RowSpace(p);
    const Sequences sequences(p, t);
    const int32_t dtype = biased                                        ? p.bias_dtype
                          : spec_of(of.tensor).element == Element::kF32 ? int32_t{ATTN_F32}
                                                                        : p.dtype;
    for (int64_t row = 0; row < rows.count(); ++row) {
      const Row at = rows.at(row);
      const bool absent = keys ? at.i >= sequences.keys.length(at.b)
                               : !heads && !biased && due.state[static_cast<size_t>(row)] == RowState::kAbsent;
      if (absent) continue;
      const StoredRow stored = heads    ? StoredRow{0, 0}
                               : biased ? StoredRow{at.b, at.i}  // never packed
                               : keys   ? sequences.key_row(at.b, at.i)
                                        : sequences.query_row(at.b, at.i);
      for (int64_t c = 0; c < of.columns; ++c) {
        const auto value = static_cast<float>(value_of(of, static_cast<size_t>(row * of.columns + c)));
        const int64_t offset = offset_of(to, stored.entry, at.h, stored.row, c);
        if (dtype == ATTN_F32)
          static_cast<float*>(to.data)[offset] = value;
        else
          static_cast<uint16_t*>(to.data)[offset] = static_cast<uint16_t>(encode16(dtype, value));
      }
    }
  }

  const Misreads misreads_;
};

}  // namespace attnfuzz
