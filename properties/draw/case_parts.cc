#include "properties/draw/case_parts.h"

#include <vector>

#include "properties/draw/draw.h"

namespace attnfuzz {
namespace {

// Enough draws to meet a rare feature, which appears in 3 % of all cases.
constexpr int kDraws = 60;

// A draw only turns features on, so it starts from a case that has none of this phase.
Case stripped(Phase phase, Case c) {
  for (const Feature* feature : all_features()) {
    for (const Part& part : feature->parts) {
      if (feature->draw.phase == phase) part.take(c, plain_case());
    }
  }
  return c;
}

Case redraw(const Part& part, Phase phase, const Case& c, const GeneratorConfig& config, Rng& rng) {
  const Case begin = stripped(phase, c);
  for (int i = 0; i < kDraws; ++i) {
    Case fresh = begin, next = c;
    draw_phase(phase, config, rng, fresh);
    if (phase == Phase::kSizes) fit_sizes(config, rng, fresh);
    if (phase == Phase::kSizes && rng.range(0, 9999) < 150)
      draw_long(config, rng, {.keys = rng.coin(), .reach = static_cast<Longest::Reach>(rng.range(0, 2))},
                fresh);
    part.take(next, fresh);
    if (next != c) return next;
  }
  return c;
}

}  // namespace

std::span<const Part* const> parts() {
  static const auto all = [] {
    std::vector<const Part*> parts;
    for (const Feature* feature : all_features()) {
      for (const Part& part : feature->parts) parts.push_back(&part);
    }
    return parts;
  }();
  return all;
}

Case redraw(const Case& c, const GeneratorConfig& config, Rng& rng) {
  int64_t sum = 0;
  for (const Part* part : parts()) sum += part->weight;
  int64_t at = rng.range(0, sum - 1);
  for (const Feature* feature : all_features()) {
    for (const Part& part : feature->parts) {
      at -= part.weight;
      if (at < 0) return redraw(part, feature->draw.phase, c, config, rng);
    }
  }
  return c;
}

}  // namespace attnfuzz
