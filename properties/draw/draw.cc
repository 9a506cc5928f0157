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
}

namespace {

// Into the domain; and its least sizes may be more than the draw meant to pay for.
int64_t work_of(const Problem& p) { return p.batch * p.heads_q * p.seq_q * p.seq_k * (p.dim_qk + p.dim_v); }

void fit_within(const attn_domain& domain, int64_t most_work, Case& c) {
  Problem& p = c.problem;
  fit(domain, c);
  while (work_of(p) > most_work) {
    const Problem before = p;
    (p.seq_q > p.seq_k && !domain.equal_lengths ? p.seq_q : p.seq_k) /= 2;
    fit(domain, c);
    if (p != before) continue;
    p.batch = p.heads_q = p.heads_kv = 1;
    fit(domain, c);
    if (p != before) continue;
    p.dim_qk = p.dim_v = 1;
    fit(domain, c);
    if (p == before) return;
  }
}

}  // namespace

int64_t least_work(const attn_domain& domain, int64_t keys) {
  Case c;
  Problem& p = c.problem;
  p.batch = p.heads_q = p.heads_kv = p.seq_q = p.dim_qk = p.dim_v = 1;
  p.seq_k = keys;
  fit(domain, c);
  return work_of(p);
}

std::optional<Aim> spared_sizes(const Aim& aim) {
  if (!aim.refused.sizes) return std::nullopt;
  const auto within = narrowed(aim.domain.value_or(attn_domain{}), *aim.refused.sizes);
  if (!std::holds_alternative<attn_domain>(within)) return std::nullopt;
  Aim spared = aim;
  spared.domain = std::get<attn_domain>(within);
  return spared;
}

void fit_domain(const Aim& aim, Case& c) {
  for (const Refusal* refusal : aim.never) refusal->strip(c);
  if (aim.domain) fit_within(*aim.domain, aim.work, c);
}

void strip_refused(const Refused& refused, Case& c, int64_t work) {
  if (refused.sizes) fit_within(*refused.sizes, work, c);
  for (const Refusal* refusal : refused.those) refusal->strip(c);
  if (refused.sizes) fit_within(*refused.sizes, work, c);
}

}  // namespace attnfuzz
