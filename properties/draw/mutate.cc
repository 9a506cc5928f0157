#include "properties/draw/mutate.h"

#include <algorithm>

#include "properties/case/features/domain.h"
#include "properties/data/fills.h"
#include "properties/draw/afford.h"
#include "properties/draw/crossover_groups.h"
#include "properties/draw/draw.h"
#include "properties/draw/mutations.h"
#include "properties/draw/rapidcheck_rng.h"

namespace attnfuzz {
namespace {

constexpr int kTries = 24;

RapidcheckRng rng_of(uint64_t seed, uint64_t purpose) {
  rc::Random::Key key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = mix(seed, purpose, i, 0, 0);
  return RapidcheckRng(rc::Random(key));
}

class CostBudget {
 public:
  CostBudget(const GeneratorConfig& config, const Case& parent, Rng& rng) : config_(config) {
    parent_work_ = price(config, parent).work;
    // Most mutations leave most of the work unused, as the draw does. One in five may cost more than any drawn
    // case: as much as three heads with three query tiles and two key tiles.
    eighths_ = rng.weighted<int64_t>({{20, kMostEighths}, {10, 16}, {20, 8}, {28, 4}, {22, 2}});
    // A case that is a hundred times slower must not become the ancestor of a whole corpus.
    long_ = rng.percent(30) || !is_long(parent.problem);
  }

  // True if a case costs no more than a drawn one may, and no more than this mutation's share or the parent.
  bool affords(const Case& c) const {
    if (!affordable(c, config_) || (is_long(c.problem) && !long_)) return false;
    const Price now = price(config_, c);
    return now <= most(config_, c, eighths_) || now.work <= parent_work_;
  }

 private:
  const GeneratorConfig& config_;
  int64_t eighths_;
  Wide parent_work_;
  bool long_;
};

// Gives up what the mutation did not change, in random order, until the case is affordable.
void make_room(const GeneratorConfig& config, const Case& parent, const CostBudget& budget, Rng& rng, Case& c) {
  using Number = int64_t (*)(const Problem&);
  static constexpr Number kNumbers[] = {
      [](const Problem& p) { return p.batch; },
      [](const Problem& p) { return p.heads_kv; },
      [](const Problem& p) { return p.heads_q / p.heads_kv; },
      [](const Problem& p) { return p.dim_qk; },
      [](const Problem& p) { return p.dim_v; },
      [](const Problem& p) { return p.num_splits; },
      [](const Problem& p) { return p.seq_q; },
      [](const Problem& p) { return p.seq_k; },
  };
  const Problem before = parent.problem, now = c.problem;
  // A length or size that was just changed is kept.
  const auto keeps = [&](const Case& less) {
    return std::ranges::all_of(kNumbers,
                               [&](Number n) { return n(now) == n(before) || n(less.problem) == n(now); });
  };
  for (int i = 0; i < 20 && !budget.affords(c) && give_up(config, rng, c, keeps); ++i) {
  }
  for (int i = 0; i < 20 && !budget.affords(c); ++i) give_up(config, rng, c, [](const Case&) { return true; });
}

// True if sizes stay within what illegal() allows, so that arithmetic on them cannot overflow.
bool sane(const Problem& p) {
  constexpr int64_t kMost = int64_t{1} << 31;
  for (const int64_t n : {p.batch, p.heads_q, p.heads_kv, p.seq_q, p.seq_k}) {
    if (n < 0 || n > kMost) return false;
  }
  return p.heads_kv > 0;
}

// Makes a changed case consistent, affordable and legal. False if that fails, or if nothing is new.
bool legalize(const GeneratorConfig& config, const Case& parent, const CostBudget& budget, Rng& rng, Case& c) {
  c.remap = {};
  if (!config.refused.nothing() && !rng.percent(3)) strip_refused(config.refused, c, config.work);
  if (!sane(c.problem)) return false;
  if (config.domain) draw_within(*config.domain, rng, c);
  fit_domain(config, c);
  make_room(config, parent, budget, rng, c);
  if (!budget.affords(c)) return false;
  if (c.env.variant > config.variants) c.env.variant = config.variants;
  if (has_many_heads(c.problem) && config.variants > 0) c.env.variant = 1;
  tidy(c);
  if (config.domain) lay_within(*config.domain, c);
  if (illegal(c)) {
    // A case is usually illegal through its memory: through strides that no slot holds.
    for (TensorLayout& layout : c.layout) layout = {};
    if (config.domain) lay_within(*config.domain, c);
    if (illegal(c)) return false;
  }
  return c != parent;
}

void change(const GeneratorConfig& config, Rng& rng, Case& c) {
  enum { kRedraw, kNumber, kClass, kShape, kCalls, kValues, kOff };
  switch (rng.weighted<int>(
      {{36, kRedraw}, {30, kNumber}, {12, kClass}, {5, kShape}, {3, kCalls}, {7, kValues}, {7, kOff}})) {
    case kRedraw:
      c = redraw(c, config, rng);
      return;
    case kNumber:
      return step_number(config, rng, c);
    case kClass:
      return step_class(config, rng, c);
    case kShape:
      return step_shape(config, rng, c);
    case kCalls:
      return step_calls(rng, c);
    case kValues:
      return step_values(config, rng, c);
    default:
      return step_off(rng, c);
  }
}

}  // namespace

Case mutate(const Case& c, const GeneratorConfig& config, uint64_t seed) {
  RapidcheckRng rng = rng_of(seed, 1);
  if (!illegal(c)) {
    for (int i = 0; i < kTries; ++i) {
      const CostBudget budget(config, c, rng);
      Case next = c;
      const int64_t changes = rng.weighted<int64_t>({{60, 1}, {30, 2}, {10, 4}});
      for (int64_t n = 0; n < changes; ++n) {
        change(config, rng, next);
        if (!sane(next.problem)) break;
        tidy(next);  // the next change sees the result of this one
      }
      if (legalize(config, c, budget, rng, next)) return next;
    }
  }
  // No neighbour is legal and affordable, so a case is drawn from elsewhere at the usual price.
  Case other = draw(config, seed, rng.bits());
  for (int i = 0; i < kTries && !affordable(other, config); ++i) other = draw(config, seed, rng.bits());
  return other;
}

Case cross(const Case& a, const Case& b, const GeneratorConfig& config, uint64_t seed) {
  RapidcheckRng rng = rng_of(seed, 2);
  if (!illegal(a) && !illegal(b)) {
    for (int i = 0; i < kTries; ++i) {
      const CostBudget budget(config, a, rng);
      Case child = a;
      const int64_t percent = rng.pick<int64_t>({10, 25, 50});
      for (const CrossoverGroup* group : crossover_groups()) {
        if (rng.percent(percent)) group->take(child, b);
      }
      if (legalize(config, a, budget, rng, child) && child != b) return child;
    }
  }
  return mutate(a, config, seed);
}

}  // namespace attnfuzz
