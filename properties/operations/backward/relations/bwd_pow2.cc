// If dO is multiplied by a power of two, all gradients are multiplied by it, because each of their terms has
// one factor of dO. The results agree bit for bit unless a number is rounded as a subnormal.
#include "properties/operations/backward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

constexpr int kBwdPow2Power = 1;

// Gives dO values that stay far from overflow and underflow in every format.
bool adapt_bwd_pow2(Case& c, const KernelInfo&, std::string*) {
  drop_planted(c, TensorId::kDout);
  take_no_dlse(c);
  drop_non_finite(c);
  if (c.dout.kind != FillKind::kSmallInt && c.dout.kind != FillKind::kConstant &&
      c.dout.kind != FillKind::kOneHot)
    c.dout = Fill{.kind = FillKind::kSmallInt, .seed = c.dout.seed};
  c.dout.exponent = 0;
  return true;
}

// True if a kernel in fp16 may round parts of this output's sums, which may be subnormal where the sum is not:
// dK and dV of one query head, or dS of a pair.
bool rounds_parts(const Run& run, TensorId t) {
  const Problem& p = run.c.problem;
  if (p.dtype != ATTN_F16 || run.plan.head_format == ATTN_FORMAT_F32) return false;
  const bool of_heads = t == TensorId::kDk || t == TensorId::kDv,
             of_pairs = t == TensorId::kDbias && p.bias && p.bias->broadcast != Broadcast{};
  return (of_heads && p.heads_q > p.heads_kv) || of_pairs;
}

void check_bwd_pow2(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  other.dout.exponent += kBwdPow2Power;
  constexpr const char* kWhat = "dO times 2";
  const Run* run = trial.run(other, kWhat);
  if (!run) return;
  for (int64_t row = 0; row < base->reference.rows; ++row) {
    if (!trial.same_within(*base, row, *run, row, kWhat, 2)) return;
  }
  for (const TensorId t : {TensorId::kDk, TensorId::kDv}) {
    if (!trial.same_elements(t, *base, *run, kWhat, 2)) return;
  }
  // dA in fp16 may be subnormal.
  const bool narrow = base->c.problem.dtype == ATTN_F16 && base->plan.ds_format != ATTN_FORMAT_F32;
  if (narrow || !trial.promise_bits(base->plan, run->plan)) return;
  constexpr float kSmallest = 0x1p-10f;  // a smaller element may round as a subnormal
  for (const Expected& due : base->reference.outputs) {
    if (rounds_parts(*base, due.tensor)) continue;
    const std::vector<float>&x = (*base)[due.tensor], &twice = (*run)[due.tensor];
    for (size_t n = 0; n < x.size(); ++n) {
      if (due.rule[n] != 0 || !(std::abs(x[n]) >= kSmallest) || !std::isfinite(twice[n]) ||
          2 * x[n] == twice[n])
        continue;
      const auto at = static_cast<int64_t>(n);
      const Where where = where_is(due.tensor, base->c.problem, base->plan, at / due.columns, at % due.columns);
      trial.fail(Kind::kRelation, std::string(kWhat) + ": " + name_of(where) + " must grow by exactly 2");
      return;
    }
  }
}

}  // namespace

extern const Property bwd_pow2 = {
    .name = "bwd_pow2",
    .statement = "dO times 2^k gives gradients times 2^k, bit for bit",
    .adapt = adapt_bwd_pow2,
    .check = check_bwd_pow2,
    .operation = &operations::backward,
    .key_blocks = true,
    .also = &operations::selected_backward};

}  // namespace attnfuzz::relations
