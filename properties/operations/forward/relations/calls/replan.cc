// A plan may depend only on addresses, strides and sizes, so it is valid for every call that has the same:
// captured graphs and servers make a plan once and run it with other values and other lengths. If plan() reads
// the tensors, or keeps values of them, the second call is wrong.
#include "properties/case/features/shrink_toggles.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

Case other_contents(const Case& base) {
  Case c = variant_of(base);
  change_contents(c);
  Problem& p = c.problem;
  if (!p.paging && p.key_lengths) {
    // The longest batch entries become the shortest.
    for (int64_t& length : *p.key_lengths) length = p.seq_k - std::clamp<int64_t>(length, 0, p.seq_k);
  }
  tidy(c);
  return c;
}

void check_replan(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const attn_plan plan = base->plan;
  trial.run_on_plan(other_contents(base->c), plan, "other values and lengths by the plan of the first call");
}

}  // namespace

extern const Property replan = {.name = "replan",
                                .statement = "a plan made once serves calls with other values and lengths",
                                .adapt = any_case,
                                .check = check_replan,
                                .asks_target = true,
                                .compares = false,
                                .operation = nullptr,
                                .packed = true,
                                .kv8 = true,
                                .key_blocks = true};

}  // namespace attnfuzz::relations
