#include "tests/reference/legal_kernels/legal_cases.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/reference/legal_kernels/declared.h"
#include "tests/reference/legal_kernels/legal_kernel.h"

namespace attnfuzz {

Calibration arithmetic(Random* random, attn_plan* plan, Choices* how) {
  switch (random->below(4)) {
    case 0:
      how->mma = Arithmetic::kHopper;
      how->exp_units = 1.4;
      return h200();
    case 1:
      how->mma = Arithmetic::kChain;
      how->exp_units = 0.7;
      return executor();
    case 2:
      how->mma = Arithmetic::kTruncate;
      return documented();
    default:
      how->mma = Arithmetic::kBlocks4;
      plan->mma_block = random->below(2) ? 4 : 0;
      return documented();
  }
}

namespace {

// The choices of a plan that may leave a row unjudged, in words.
std::vector<std::string> choices_of(const attn_plan& plan) {
  const auto numbered = [](const char* what, int32_t n) { return what + std::to_string(n); };
  std::string p = numbered("P's format ", plan.p_format);
  if (plan.p_scale > 0 && plan.p_format != ATTN_FORMAT_F32) p += ", scaled";
  return {p,
          numbered("V's format ", plan.v_format),
          numbered("scale mode ", plan.scale_mode),
          numbered("rule of the maximum ", plan.max_rule),
          numbered("conversion ", plan.conversion),
          numbered("merge format ", plan.merge_format)};
}

}  // namespace

Shape random_shape(Random* random) {
  constexpr int64_t kDims[] = {1, 16, 24, 64, 40};
  Shape s;
  s.dtype = static_cast<int32_t>(random->below(2));
  s.heads_q = 2;
  s.heads_kv = 1 + random->below(2);
  s.tile_k = int64_t{8} << random->below(4);
  s.tile_q = 16;
  s.seq_q = 1 + random->below(4);
  s.seq_k = 1 + random->below(random->below(4) ? 90 : 400);
  if (random->below(100) == 0) s.seq_k = 4096 + random->below(1500), s.seq_q = 1, s.heads_q = s.heads_kv = 1;
  s.dim_qk = kDims[random->below(5)];
  s.dim_v = 1 + random->below(17);
  s.causal = random->below(4) == 0;
  s.align = static_cast<int32_t>(random->below(2));
  if (random->below(4) == 0) s.window_left = random->below(60);
  if (random->below(4) == 0) s.window_right = random->below(60);
  if (random->below(5) == 0) s.bias_dtype = ATTN_F32;
  if (random->below(5) == 0) s.softcap = random->below(2) ? 5.0f : 30.0f;
  s.mask = random->below(8) == 0;
  s.num_splits = random->below(2) ? 1 : 1 + random->below(5);
  return s;
}

LegalTally run_legal_cases(uint64_t first, int64_t count) {
  LegalTally tally;
  for (uint64_t number = first; number < first + static_cast<uint64_t>(count); ++number) {
    Random random(number * 7919 + 1);
    Case c(random_shape(&random));
    const Regime regime = kRegimes[random.below(std::size(kRegimes))];
    c.fill(regime, random.bits());
    declare_any(&random, &c.plan);
    if (c.problem.softcap > 0 || c.problem.bias_dtype != ATTN_NONE)
      c.plan.scale_mode = random.below(2) ? ATTN_SCALE_SEPARATE : ATTN_SCALE_SEPARATE_FMA;
    Choices how{.seed = random.bits()};
    const Calibration calibration = arithmetic(&random, &c.plan, &how);
    const Reference reference = evaluate(c.problem, c.tensors(), c.plan, calibration);
    const Output got = run_as_planned(c, how);
    const Worst worst = worst_of(reference, got);
    const ErrorStatistics statistics = error_statistics(reference, c.problem.dtype, c.plan, got.o, got.lse);
    tally.unlikely += statistics.unlikely();
    tally.most.size = std::max(tally.most.size, statistics.size);
    tally.most.row = std::max(tally.most.row, statistics.row);
    tally.most.bias = std::max(tally.most.bias, statistics.bias);
    tally.most.lse = std::max(tally.most.lse, statistics.lse);
    ++tally.cases;
    tally.rows += reference.sampled - reference.dead;
    for (const std::string& choice : choices_of(c.plan)) {
      LegalTally::Rows& rows = tally.of_choice[choice];
      rows.all += reference.sampled - reference.dead;
      rows.bounded += std::ranges::count(reference.state, RowState::kBounded);
    }
    tally.uninformative += reference.uninformative;
    tally.unconstrained += reference.unconstrained;
    tally.worst_o = std::max(tally.worst_o, worst.o);
    tally.worst_lse = std::max(tally.worst_lse, worst.lse);
    if (worst.o <= 1 && worst.lse <= 1) continue;
    const attn_plan& p = c.plan;
    const auto say = [](const char* what, auto n) { return std::string(" ") + what + " " + std::to_string(n); };
    tally.violation =
        "case" + std::to_string(number) + say("O", worst.o) + say("LSE", worst.lse) + " " + name_of(regime) +
        say("dtype", c.problem.dtype) + say("n", c.problem.seq_k) + say("d", c.problem.dim_qk) +
        say("dv", c.problem.dim_v) + say("tile", p.tile_k) + say("splits", p.num_splits) +
        say("order", p.key_order) + say("max", p.max_rule) + say("sum", p.sum_rule) +
        say("lanes", p.sum_lanes) + say("dot", p.dot_order) + say("merge", p.merge_rule) +
        say("conversion", p.conversion) + say("scale", p.scale_mode) + say("p", p.p_format) +
        say("p_scale", p.p_scale) + say("v", p.v_format) + say("v_scale", p.v_scale) + say("exp", p.exp_error) +
        say("partial", p.partial_format) + say("merging", p.merge_format) + say("ftz", p.flush_to_zero) +
        say("mma", static_cast<int>(how.mma)) + say("seed%12", how.seed % 12);
    return tally;
  }
  return tally;
}

}  // namespace attnfuzz
