// A window wider than both sequences hides nothing, up to the widest window that 64 bits can express. If
// diag(i) + window_right overflows, a wide window becomes a narrow one.
#include <limits>

#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_window_wide(Case& c, const KernelInfo&, std::string*) {
  c.problem.window_left = c.problem.window_right = -1;
  return true;
}

void check_window_wide(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const Problem& p = base->c.problem;
  constexpr int64_t kWidest = std::numeric_limits<int64_t>::max();
  for (const int64_t width : {p.seq_q + p.seq_k, kWidest}) {
    Case other = variant_of(base->c);
    other.problem.window_left = other.problem.window_right = width;
    const std::string label = "window of " + std::to_string(width) + " on both sides";
    const Run* run = trial.run(other, label);
    if (!run || !trial.all_within(*base, *run, label + " against none")) return;
  }
}

}  // namespace

extern const Property window_wide = {.name = "window_wide",
                                     .statement = "a window that reaches past both ends changes nothing",
                                     .adapt = adapt_window_wide,
                                     .check = check_window_wide,
                                     .packed = true,
                                     .kv8 = true};

}  // namespace attnfuzz::relations
