#include "properties/draw/draw.h"

#include "properties/case/features/domain.h"

namespace attnfuzz {

int64_t a_tile(Rng& rng, const std::vector<int64_t>& tiles) {
  return rng.percent(80) ? tiles.front() : rng.pick<int64_t>(tiles);
}

void draw_phase(Phase phase, const GeneratorConfig& config, Rng& rng, Case& c) {
  // Only these phases look at tiles.
  const bool sizes = phase == Phase::kSizes, visibility = phase == Phase::kVisibility;
  const int64_t tile_q = sizes ? a_tile(rng, config.tiles_q) : config.tiles_q.front();
  const int64_t tile_k = sizes || visibility ? a_tile(rng, config.tiles_k) : config.tiles_k.front();
  for (const Feature* feature : all_features()) {
    if (feature->draw.phase == phase) feature->draw.draw({config, rng, tile_q, tile_k}, c);
  }
}

namespace {

int64_t work_of(const Problem& p) { return p.batch * p.heads_q * p.seq_q * p.seq_k * (p.dim_qk + p.dim_v); }

// Moves the sizes into the domain and then towards most_work. The domain's least sizes may cost more.
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

std::optional<GeneratorConfig> spared_sizes(const GeneratorConfig& config) {
  if (!config.refused.sizes) return std::nullopt;
  const auto within = narrowed(config.domain.value_or(attn_domain{}), *config.refused.sizes);
  if (!std::holds_alternative<attn_domain>(within)) return std::nullopt;
  GeneratorConfig spared = config;
  spared.domain = std::get<attn_domain>(within);
  return spared;
}

void fit_domain(const GeneratorConfig& config, Case& c) {
  for (const Refusal* refusal : config.never) refusal->strip(c);
  if (config.domain) fit_within(*config.domain, config.work, c);
}

void strip_refused(const Refused& refused, Case& c, int64_t work) {
  if (refused.sizes) fit_within(*refused.sizes, work, c);
  for (const Refusal* refusal : refused.those) refusal->strip(c);
  if (refused.sizes) fit_within(*refused.sizes, work, c);
}

}  // namespace attnfuzz
