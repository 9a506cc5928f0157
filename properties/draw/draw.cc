#include "properties/draw/draw.h"

#include <algorithm>

#include "properties/case/domain.h"

namespace attnfuzz {

int64_t a_tile(Dice& dice, const std::vector<int64_t>& tiles) {
  return dice.percent(80) ? tiles.front() : dice.pick<int64_t>(tiles);
}

void draw_phase(Phase phase, const Aim& aim, Dice& dice, Case& c) {
  // Only what these phases draw looks at tiles.
  const bool sizes = phase == Phase::kSizes, visibility = phase == Phase::kVisibility;
  const int64_t tile_q = sizes ? a_tile(dice, aim.tiles_q) : aim.tiles_q.front();
  const int64_t tile_k = sizes || visibility ? a_tile(dice, aim.tiles_k) : aim.tiles_k.front();
  for (const Feature* feature : all_features()) {
    if (feature->draw.phase == phase) feature->draw.draw({aim, dice, tile_q, tile_k}, c);
  }
  if (sizes) fit_sizes(aim, dice, c.problem);
}

void fit_domain(const Aim& aim, Case& c) {
  if (!aim.domain) return;
  Problem& p = c.problem;
  fit(*aim.domain, c);
  // Its least sizes may be more than the draw meant to pay for.
  const auto work = [&] { return p.batch * p.heads_q * p.seq_q * p.seq_k * (p.dim_qk + p.dim_v); };
  while (work() > aim.work) {
    const Problem before = p;
    (p.seq_q > p.seq_k && !aim.domain->equal_lengths ? p.seq_q : p.seq_k) /= 2;
    fit(*aim.domain, c);
    if (p != before) continue;
    p.batch = p.heads_q = p.heads_kv = 1;
    fit(*aim.domain, c);
    if (p == before) return;
  }
}

void strip_refused(const Refused& refused, Case& c) {
  c.problem.dim_qk = std::min(c.problem.dim_qk, refused.max_dim);
  c.problem.dim_v = std::min(c.problem.dim_v, refused.max_dim);
  for (const Refusal* refusal : refused.those) refusal->strip(c);
}

}  // namespace attnfuzz
