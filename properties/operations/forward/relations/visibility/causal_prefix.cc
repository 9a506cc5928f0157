// A causal row equals a row of a shorter sequence: row t, aligned top-left, sees the same keys as without
// causality if only the first t + 1 keys existed.
#include <algorithm>

#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_causal_prefix(Case& c, const KernelInfo&, std::string*) {
  Problem& p = c.problem;
  p.causal = true;
  p.align = ATTN_TOP_LEFT;
  p.window_left = p.window_right = -1;
  return true;
}

Case prefix(const Case& base, int64_t keys) {
  Case c = variant_of(base);
  Problem& p = c.problem;
  p.causal = false;
  if (p.key_lengths) {
    for (int64_t& length : *p.key_lengths) length = std::min(length, keys);
  } else {
    // Patterns and biases still refer to the whole sequence, and values planted beyond the cut are dropped.
    c.remap.seq_q = p.seq_q;
    c.remap.seq_k = p.seq_k;
    p.seq_k = std::min(p.seq_k, keys);
  }
  return c;
}

void check_causal_prefix(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const Problem& p = base->c.problem;
  if (p.seq_q == 0) return;
  const int64_t border = base->plan.tile_k;
  const int64_t some = static_cast<int64_t>(choice(base->c, 1) % static_cast<uint64_t>(p.seq_q));
  const int64_t edge = std::min(p.seq_q - 1, border - static_cast<int64_t>(choice(base->c, 2) % 2));
  for (const int64_t t : {edge, some}) {
    const std::string label = "the first " + std::to_string(t + 1) + " keys, not causal";
    const Run* run = trial.run(prefix(base->c, t + 1), label);
    if (!run) return;
    for (int64_t b = 0; b < p.batch; ++b) {
      for (int64_t h = 0; h < p.heads_q; ++h) {
        const int64_t row = RowSpace(p).of(b, h, t);
        if (!trial.same_within(*base, row, *run, row, "causal row " + std::to_string(t) + " against " + label))
          return;
      }
    }
    if (some == edge) return;
  }
}

}  // namespace

extern const Property causal_prefix = {"causal_prefix",
                                       "a causal row t equals the non-causal result on the first t + 1 keys",
                                       adapt_causal_prefix, check_causal_prefix};

}  // namespace attnfuzz::relations
