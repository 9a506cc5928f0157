// The merge of attention over two halves of the keys is attention over all of them.
//
// The oracle attends over each half and over all keys of a small forward problem, made from the case's seeds.
// The kernel merges the results of the halves, which are rounded when they are stored: o'_s and lse'_s instead
// of o_s and lse_s. With the weights w_s = exp(lse_s - lse), and w'_s from the rounded LSEs, the exact merge of
// what is stored is off by
//
//   |o' - o| <= sum_s |w'_s o'_s - w_s o_s|,   |lse' - lse| = |ln sum_s exp(lse'_s - lse)|
//
// The kernel's result may in addition be off by its own bound.
#include <cmath>

#include "properties/case/codec/as_contract.h"
#include "properties/data/fills.h"
#include "properties/judge/given_call.h"
#include "properties/memory/layout.h"
#include "properties/operations/forward/relations/tools.h"
#include "reference/numbers/formats.h"

namespace attnfuzz::operations {
extern const Operation merge;
}

namespace attnfuzz::relations {
namespace {

constexpr int64_t kMostKeys = 5, kColumns = 4;  // of a half; of Q and K

// A forward problem whose keys are those of two sides. The case's pattern says which queries see the keys of a
// side.
struct Attention {
  attn_problem problem;
  attn_tensors tensors = {};
  int64_t border;  // the first key of the second side
  std::vector<std::byte> q, k, v;
  std::vector<uint8_t> mask;

  explicit Attention(const Case& merge) {
    const uint64_t dice = finish64(merge.lse1.seed ^ merge.lse2.seed << 32);
    border = 1 + static_cast<int64_t>(dice % kMostKeys);
    Problem p;
    p.dtype = merge.problem.dtype, p.features = merge.problem.features & ATTN_FEATURE_F32;
    p.batch = merge.problem.batch, p.heads_q = p.heads_kv = merge.problem.heads_q;
    p.seq_q = merge.problem.seq_q, p.dim_v = merge.problem.dim_v;
    p.seq_k = border + 1 + static_cast<int64_t>(dice / kMostKeys % kMostKeys);
    p.dim_qk = kColumns;
    p.scale = std::ldexp(1.0f, static_cast<int>(dice >> 32 & 7) - 3);
    p.mask.emplace();
    problem = problem_of(p);
    tensors.size = sizeof tensors;
    tensors.q = filled({.kind = FillKind::kGaussian, .seed = merge.o1.seed}, p.seq_q, p.dim_qk, &q);
    tensors.k = filled({.kind = FillKind::kGaussian, .seed = merge.o2.seed}, p.seq_k, p.dim_qk, &k);
    tensors.v = filled({.kind = FillKind::kGaussian, .seed = dice}, p.seq_k, p.dim_v, &v);
    const RowSpace rows(problem);
    for (int64_t row = 0; row < rows.count(); ++row) {
      const auto [b, h, i] = rows.at(row);
      for (int64_t j = 0; j < p.seq_k; ++j)
        mask.push_back(saw_keys(merge, j < border ? TensorId::kO1 : TensorId::kO2, b, h, i));
    }
    tensors.mask = dense(mask.data(), p.seq_q, p.seq_k);
  }
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  // O and LSE over the keys first <= j < last, with the LSE in the form of `plan`.
  Reference over(int64_t first, int64_t last, const attn_plan& plan) const {
    attn_plan form = {};
    form.size = sizeof form;
    form.accumulator = ATTN_ACC_FFMA;
    form.exp_class = ATTN_EXP_EXPF, form.log_class = ATTN_LOG_LOGF, form.rcp_class = ATTN_RCP_EXACT;
    form.scale_mode = ATTN_SCALE_SEPARATE;
    form.tile_q = form.tile_k = form.num_splits = 1;
    form.p_format = ATTN_FORMAT_F32;
    form.lse_base = plan.lse_base;
    const ErrorModel model = make_error_model(problem, form, documented());
    std::vector<int64_t> rows(static_cast<size_t>(RowSpace(problem).count()));
    for (size_t row = 0; row < rows.size(); ++row) rows[row] = static_cast<int64_t>(row);
    return evaluate_keys(problem, tensors, model, rows, first, last);
  }

 private:
  attn_tensor dense(void* data, int64_t rows, int64_t columns) const {
    return {data, {problem.heads_q * rows * columns, rows * columns, columns, 1}};
  }
  attn_tensor filled(const Fill& fill, int64_t rows, int64_t columns, std::vector<std::byte>* to) const {
    const RowSpace all(problem.batch, problem.heads_q, rows);
    const auto bytes = static_cast<size_t>(columns * (problem.dtype == ATTN_F32 ? 4 : 2));
    to->resize(static_cast<size_t>(all.count()) * bytes);
    for (int64_t row = 0; row < all.count(); ++row) {
      const auto [b, h, s] = all.at(row);
      fill_row(fill, problem.dtype, b, h, s, columns, &(*to)[static_cast<size_t>(row) * bytes]);
    }
    return dense(to->data(), rows, columns);
  }
};

double exact(const Expected& of, size_t at) { return of.exact.empty() ? of.value[at] : of.exact[at]; }

// The results over one half, and the numbers that the kernel is given.
struct Half {
  Reference due;
  std::vector<float> o, lse;

  Half(Reference of, int32_t dtype, float dead_lse) : due(std::move(of)) {
    const Expected &due_o = due[TensorId::kO], &due_lse = due[TensorId::kLse];
    for (size_t at = 0; at < due_o.value.size(); ++at) {
      const uint32_t bits = bits_of(dtype, static_cast<float>(exact(due_o, at)));
      o.push_back(static_cast<float>(decode(dtype, &bits, 0)));
    }
    for (size_t row = 0; row < due_lse.value.size(); ++row)
      lse.push_back(dead(row) ? dead_lse : static_cast<float>(exact(due_lse, row)));
  }
  bool dead(size_t row) const { return due.state[row] == RowState::kDead; }
};

// True if `of` holds the exact results of a row. A row without a bound may hold the middle of its allowed values
// instead.
bool is_exact(const Reference& of, size_t row) {
  return of.state[row] == RowState::kBounded || of.state[row] == RowState::kDead;
}

// Compares a row of the merge with attention over all keys.
bool row_is_whole(Trial& trial, const Run& run, const Half (&halves)[2], const Reference& whole, size_t row) {
  constexpr double kDouble = 0x1p-40;  // the oracle's own rounding
  constexpr const char* kWhat =
      "a merge of attention over two halves of the keys, and attention over all of them";
  const Expected &o = whole[TensorId::kO], &lse = whole[TensorId::kLse];
  const double total = exact(lse, row) * lse.unit;
  double weight[2] = {}, stored[2] = {}, sum = 0;
  for (int s = 0; s < 2; ++s) {
    if (halves[s].dead(row)) continue;
    weight[s] = std::exp(exact(halves[s].due[TensorId::kLse], row) * lse.unit - total);
    stored[s] = std::exp(static_cast<double>(halves[s].lse[row]) * lse.unit - total);
    sum += stored[s];
  }
  const auto n = static_cast<int64_t>(row);
  const double shift = std::fabs(std::log(sum)) + kDouble * (1 + std::fabs(total));
  if (!output_is(trial, run, TensorId::kLse, n, 0, exact(lse, row), shift / lse.unit, kWhat)) return false;
  for (int64_t column = 0; column < o.columns; ++column) {
    const auto at = static_cast<size_t>(n * o.columns + column);
    double slack = 0;
    for (int s = 0; s < 2; ++s) {
      const double was = weight[s] * exact(halves[s].due[TensorId::kO], at);
      slack +=
          std::fabs(stored[s] / sum * static_cast<double>(halves[s].o[at]) - was) + kDouble * std::fabs(was);
    }
    if (!output_is(trial, run, TensorId::kO, n, column, exact(o, at), slack, kWhat)) return false;
  }
  return true;
}

// The relation replaces the values of both sides, so planted ones would be lost.
bool adapt_merge_attended(Case& c, const KernelInfo&, std::string*) {
  c.planted.clear();
  return true;
}

void check_merge_attended(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const attn_plan plan = base->plan;
  const Case other = variant_of(base->c);
  const Attention attention(other);
  const int64_t keys = attention.problem.seq_k;
  const Reference whole = attention.over(0, keys, plan);
  const auto half = [&](int64_t first, int64_t last) {
    return Half(attention.over(first, last, plan), other.problem.dtype, dead_lse_of(plan));
  };
  const Half halves[2] = {half(0, attention.border), half(attention.border, keys)};
  const GivenInput inputs[] = {{TensorId::kO1, halves[0].o},
                               {TensorId::kLse1, halves[0].lse},
                               {TensorId::kO2, halves[1].o},
                               {TensorId::kLse2, halves[1].lse}};
  const Run* run = trial.run_given(other, inputs, "sides that are attention over two halves of the keys");
  for (size_t row = 0; run && row < whole.state.size(); ++row) {
    const bool known = is_exact(whole, row) && is_exact(halves[0].due, row) && is_exact(halves[1].due, row);
    if (!known || run->reference.state[row] != RowState::kBounded) continue;
    if (!row_is_whole(trial, *run, halves, whole, row)) return;
  }
}

}  // namespace

extern const Property merge_attended = {
    .name = "merge_attended",
    .statement = "the merge of attention over two halves of the keys is attention over all keys",
    .adapt = adapt_merge_attended,
    .check = check_merge_attended,
    .asks_target = true,
    .operation = &operations::merge};

}  // namespace attnfuzz::relations
