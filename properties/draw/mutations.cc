#include "properties/draw/mutations.h"

#include <algorithm>
#include <vector>

#include "properties/axes/axis.h"
#include "properties/draw/draw.h"

namespace attnfuzz {
namespace {

DrawContext context_for(const GeneratorConfig& config, Rng& rng) {
  const int64_t tile_q = a_tile(rng, config.tiles_q), tile_k = a_tile(rng, config.tiles_k);
  return {config, rng, tile_q, tile_k};
}

}  // namespace

void step_number(const GeneratorConfig& config, Rng& rng, Case& c) {
  const DrawContext context = context_for(config, rng);
  std::vector<MovableNumber> numbers;
  for (const Feature* feature : all_features()) feature->numbers(context, c, numbers);
  const auto n = rng.pick<MovableNumber>(std::span<const MovableNumber>(numbers));
  n.set(c, moved(n.now, n.least, n.tile, n.other, rng));
}

void step_shape(const GeneratorConfig& config, Rng& rng, Case& c) {
  Problem& p = c.problem;
  switch (rng.range(0, 5)) {
    case 0:
      std::swap(p.seq_q, p.seq_k);
      break;
    case 1:
      p.seq_q = p.seq_k;
      break;
    case 2:
      p.seq_q = rng.range(1, 4);
      break;
    case 3:
      std::swap(p.dim_qk, p.dim_v);
      break;
    case 4:
      if (rng.coin()) {
        p.heads_kv = p.heads_q;
      } else {
        p.heads_q = p.heads_kv;
      }
      break;
    default:
      // The bottom-right diagonal meets a border.
      p.seq_k = p.seq_q + a_tile(rng, config.tiles_k) * rng.range(0, 2) + rng.range(-1, 1);
      p.seq_k = std::max<int64_t>(p.seq_k, 0);
  }
}

void step_calls(Rng& rng, Case& c) {
  const auto at = static_cast<size_t>(rng.range(0, static_cast<int64_t>(c.calls.size()) - 1));
  switch (rng.range(0, 3)) {
    case 0:
      if (c.calls.size() < 4) c.calls.insert(c.calls.begin() + static_cast<std::ptrdiff_t>(at), c.calls[at]);
      break;
    case 1:
      if (c.calls.size() > 1) c.calls.erase(c.calls.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 2:
      c.calls[at].dirty_workspace = !c.calls[at].dirty_workspace;
      break;
    default:
      c.calls[at].stream = 1 - c.calls[at].stream;
  }
}

void step_values(const GeneratorConfig& config, Rng& rng, Case& c) {
  const DrawContext context = context_for(config, rng);
  std::vector<bool (*)(const DrawContext&, Case&)> mutations;
  for (const Feature* feature : all_features()) {
    mutations.insert(mutations.end(), feature->mutations.begin(), feature->mutations.end());
  }
  // If this feature has nothing to change, the next one is tried.
  auto at = static_cast<size_t>(rng.range(0, static_cast<int64_t>(mutations.size()) - 1));
  while (!mutations[at % mutations.size()](context, c)) ++at;
}

void step_class(const GeneratorConfig& config, Rng& rng, Case& c) {
  std::vector<const CaseAxis*> asked;
  for (const CaseAxis& axis : axes()) {
    if (axis.asked) asked.push_back(&axis);
  }
  const CaseAxis& axis = *rng.pick<const CaseAxis*>(std::span<const CaseAxis* const>(asked));
  const Tiling tiling = tiling_of(config, c);
  axis.make({config, rng, tiling.q, tiling.k}, static_cast<int>(rng.range(0, axis.usual() - 1)), c);
}

void step_off(Rng& rng, Case& c) {
  std::vector<const ShrinkToggle*> on;
  for (const Feature* feature : all_features()) {
    if (feature->draw.phase == Phase::kSizes) continue;  // step_number() changes these
    for (const ShrinkToggle& some : feature->shrink_toggles.all) {
      if (some.present(c)) on.push_back(&some);
    }
  }
  if (!on.empty()) rng.pick<const ShrinkToggle*>(std::span<const ShrinkToggle* const>(on))->remove(c);
}

}  // namespace attnfuzz
