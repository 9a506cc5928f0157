#include "properties/operations/forward/relations/splits/stage_tools.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "properties/judge/judge.h"

namespace attnfuzz::relations {
namespace {

using Wide = __int128;

// Calls visit(split, row, address of O's row, address of the LSE) for all partials.
template <class Visit>
void each_partial(const Execution& prepared, const attn_partials& where, const Visit& visit) {
  const RowSpace rows(prepared.c.problem);
  std::byte* workspace = static_cast<std::byte*>(prepared.laid.tensors().workspace);
  for (int64_t split = 0; split < where.num_splits; ++split) {
    for (int64_t row = 0; row < rows.count(); ++row) {
      const auto [b, h, i] = rows.at(row);
      const int64_t at[4] = {split, b, h, i};
      int64_t o = 0, lse = 0;
      for (int n = 0; n < 4; ++n) {
        o += at[n] * where.o_stride[n];
        lse += at[n] * where.lse_stride[n];
      }
      visit(split, row, workspace + where.o_offset + 4 * o, workspace + where.lse_offset + 4 * lse);
    }
  }
}

Partials empty_partials(const Problem& p, int64_t splits) {
  Partials partials;
  partials.splits = splits;
  partials.rows = RowSpace(p).count();
  partials.dim_v = p.dim_v;
  partials.o.resize(splits * partials.rows * p.dim_v);
  partials.lse.resize(splits * partials.rows, -std::numeric_limits<float>::infinity());
  return partials;
}

}  // namespace

bool staged_case(Case&, const KernelInfo& kernel, std::string* why) {
  if (!kernel.has_stages) *why = "this kernel does not split the keys";
  return kernel.has_stages;
}

std::optional<attn_partials> partials_of(Trial& trial, const Execution& prepared) {
  if (trial.done()) return std::nullopt;
  std::string why;
  const std::optional<attn_partials> where =
      trial.target().partials(prepared.laid.problem(), prepared.plan, &why);
  const auto refuse = [&trial](const std::string& what) {
    trial.fail(Kind::kRefusal, "partials() " + what);
    return std::nullopt;
  };
  if (!where)
    return refuse("does not say where its partials lie, although plan() accepted the problem" +
                  (why.empty() ? "" : ": " + why));
  if (where->size < ATTN_PARTIALS_MIN) return refuse("left its size at " + std::to_string(where->size));
  if (where->num_splits != prepared.plan.num_splits) {
    return refuse("reports " + std::to_string(where->num_splits) + " splits, the plan has " +
                  std::to_string(prepared.plan.num_splits));
  }
  const Problem& p = prepared.c.problem;
  const int64_t size[4] = {where->num_splits, p.batch, p.heads_q, p.seq_q};
  if (RowSpace(p).count() == 0) return where;
  for (const bool is_o : {true, false}) {
    const uint64_t offset = is_o ? where->o_offset : where->lse_offset;
    Wide first = 0, last = is_o ? p.dim_v - 1 : 0;
    for (int n = 0; n < 4; ++n) {
      const Wide reach = static_cast<Wide>(is_o ? where->o_stride[n] : where->lse_stride[n]) * (size[n] - 1);
      (reach < 0 ? first : last) += reach;
    }
    const Wide begin = static_cast<Wide>(offset) + 4 * first, end = static_cast<Wide>(offset) + 4 * (last + 1);
    if (offset % 4 != 0 || begin < 0 || end > static_cast<Wide>(prepared.plan.workspace_bytes)) {
      return refuse(std::string("places ") + (is_o ? "O" : "the LSE") + " outside the workspace of " +
                    std::to_string(prepared.plan.workspace_bytes) + " bytes, or not at a multiple of 4");
    }
  }
  return where;
}

Partials read_partials(const Execution& prepared, const attn_partials& where) {
  Partials partials = empty_partials(prepared.c.problem, where.num_splits);
  each_partial(prepared, where, [&](int64_t split, int64_t row, const std::byte* o, const std::byte* lse) {
    std::memcpy(partials.o_at(split, row), o, 4 * partials.dim_v);
    std::memcpy(&partials.lse_at(split, row), lse, 4);
  });
  return partials;
}

void write_partials(Execution& prepared, const attn_partials& where, const Partials& partials) {
  Partials& from = const_cast<Partials&>(partials);
  each_partial(prepared, where, [&](int64_t split, int64_t row, std::byte* o, std::byte* lse) {
    std::memcpy(o, from.o_at(split, row), 4 * partials.dim_v);
    std::memcpy(lse, &from.lse_at(split, row), 4);
  });
}

Partials oracle_partials(const Execution& prepared, const Calibration& calibration, int64_t splits) {
  Partials partials = empty_partials(prepared.c.problem, splits);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (int64_t split = 0; split < splits; ++split) {
    const Reference r =
        evaluate_partials(prepared.laid.problem(), prepared.laid.tensors(), prepared.plan, calibration, split)
            .reference;
    const Expected &o_due = r[TensorId::kO], &lse = r[TensorId::kLse];
    for (int64_t row = 0; row < r.rows; ++row) {
      const RowState state = r.state[row];
      if (state == RowState::kNaN) partials.lse_at(split, row) = kNan;
      const bool number = state == RowState::kBounded || state == RowState::kUninformative;
      if (number) partials.lse_at(split, row) = static_cast<float>(lse.value[row]);
      // A partial whose LSE exceeds fp32 counts as empty.
      const bool usable = number && std::isfinite(partials.lse_at(split, row));
      if (number && !usable) partials.lse_at(split, row) = -std::numeric_limits<float>::infinity();
      for (int64_t d = 0; d < o_due.columns; ++d) {
        const int64_t at = row * o_due.columns + d;
        float& o = partials.o_at(split, row)[d];
        o = usable && o_due.rule[at] == 0 ? static_cast<float>(o_due.value[at]) : 0.0f;
        if (state == RowState::kNaN || (usable && o_due.rule[at] == 1)) o = kNan;
        if (std::isinf(o)) o = 0;
      }
    }
  }
  return partials;
}

bool reduce_partials(Trial& trial, Execution& prepared, const attn_partials& where, const Partials& partials,
                     std::string_view label, Reduced* reduced) {
  if (trial.done()) return false;
  LaidOut& laid = prepared.laid;
  laid.before_call(Call{});
  write_partials(prepared, where, partials);
  if (!trial.run_stage(prepared, Stage::kReduce, label)) return false;
  reduced->reference = bound_reduce(laid.problem(), prepared.plan, trial.calibration(), partials.splits,
                                    partials.o.data(), partials.lse.data(), laid.tensors());
  reduced->outputs = prepared.outputs();
  Verdict& v = trial.verdict();
  if (judge_outputs(operations::forward, reduced->reference, prepared.c.problem, prepared.plan,
                    reduced->outputs, v))
    return true;
  v.message = "the reduction, " + std::string(label) + ": " + v.message;
  return false;
}

}  // namespace attnfuzz::relations
