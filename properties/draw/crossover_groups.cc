#include "properties/draw/crossover_groups.h"

#include <vector>

#include "properties/draw/draw.h"

namespace attnfuzz {
namespace {

// Enough draws to meet a rare feature, which appears in 3 % of all cases.
constexpr int kDraws = 60;

// A draw only turns features on, so it starts from a case that has none of this phase.
Case stripped(Phase phase, Case c) {
  for (const Feature* feature : all_features()) {
    for (const CrossoverGroup& group : feature->crossover_groups) {
      if (feature->draw.phase == phase) group.take(c, plain_case());
    }
  }
  return c;
}

Case redraw(const CrossoverGroup& group, Phase phase, const Case& c, const GeneratorConfig& config, Rng& rng) {
  const Case begin = stripped(phase, c);
  for (int i = 0; i < kDraws; ++i) {
    Case fresh = begin, next = c;
    draw_phase(phase, config, rng, fresh);
    if (phase == Phase::kSizes) fit_sizes(config, rng, fresh);
    if (phase == Phase::kSizes && rng.range(0, 9999) < 150)
      draw_long(config, rng, {.keys = rng.coin(), .reach = static_cast<Longest::Reach>(rng.range(0, 2))},
                fresh);
    group.take(next, fresh);
    if (next != c) return next;
  }
  return c;
}

}  // namespace

std::span<const CrossoverGroup* const> crossover_groups() {
  static const auto all = [] {
    std::vector<const CrossoverGroup*> crossover_groups;
    for (const Feature* feature : all_features()) {
      for (const CrossoverGroup& group : feature->crossover_groups) crossover_groups.push_back(&group);
    }
    return crossover_groups;
  }();
  return all;
}

Case redraw(const Case& c, const GeneratorConfig& config, Rng& rng) {
  int64_t sum = 0;
  for (const CrossoverGroup* group : crossover_groups()) sum += group->weight;
  int64_t at = rng.range(0, sum - 1);
  for (const Feature* feature : all_features()) {
    for (const CrossoverGroup& group : feature->crossover_groups) {
      at -= group.weight;
      if (at < 0) return redraw(group, feature->draw.phase, c, config, rng);
    }
  }
  return c;
}

}  // namespace attnfuzz
