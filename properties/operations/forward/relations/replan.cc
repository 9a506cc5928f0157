// A plan knows addresses, strides and sizes alone, so it serves every call that shares them: captured graphs
// and servers make a plan once and run it with other values and other lengths. A kernel whose plan() reads the
// tensors, or keeps what it saw of them, is wrong in the second call.
#include "properties/case/shrink_toggles.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

// Every length becomes another one: the longest batch entries become the shortest. In pages the entries change places,
// and their pages, too: there are as many pages as before.
void change_lengths(Problem& p) {
  if (!p.key_lengths) return;
  if (p.paging) {
    std::ranges::reverse(*p.key_lengths);
    ++p.paging->order;
    return;
  }
  for (int64_t& length : *p.key_lengths) length = p.seq_k - std::clamp<int64_t>(length, 0, p.seq_k);
}

// The packed entries change places, so that their tensors stay as large.
void change_packing(Problem& p) {
  for (auto* side : {&p.packed_q, &p.packed_k}) {
    if (*side) std::ranges::reverse((*side)->lengths);
  }
}

Case other_contents(const Case& base) {
  Case c = variant_of(base);
  for (const TensorId t : kInputs) {
    if (fill_of(t) && in_problem(spec_of(t), c.problem.features)) ++(c.*fill_of(t)).seed;
  }
  if (c.problem.bias) ++c.problem.bias->seed;
  if (c.problem.mask) ++c.problem.mask->visible.seed;
  if (auto& sink = c.problem.sink) sink->kind = SinkKind::kMixed, ++sink->seed;
  if (auto& slopes = c.problem.slopes) slopes->kind = SlopeKind::kUneven, ++slopes->seed;
  change_lengths(c.problem);
  change_packing(c.problem);
  tidy(c);
  return c;
}

void check(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const attn_plan plan = base->plan;
  trial.run_on_plan(other_contents(base->c), plan, "other values and lengths by the plan of the first call");
}

}  // namespace

extern const Property replan = {"replan",
                                "a plan made once serves calls with other values and lengths",
                                any_case,
                                check,
                                /*needs_stages=*/false,
                                /*asks_target=*/true,
                                /*compares=*/false,
                                /*operation=*/nullptr,
                                /*ask=*/nullptr,
                                /*features=*/0,
                                /*packed=*/true};

}  // namespace attnfuzz::relations
