#include "properties/draw/mutate.h"

#include <algorithm>

#include "properties/case/domain.h"
#include "properties/data/fills.h"
#include "properties/draw/afford.h"
#include "properties/draw/case_parts.h"
#include "properties/draw/draw.h"
#include "properties/draw/mutation_steps.h"
#include "properties/draw/random_dice.h"

namespace attnfuzz {
namespace {

constexpr int kTries = 24;

RandomDice dice_of(uint64_t seed, uint64_t purpose) {
  rc::Random::Key key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = mix(seed, purpose, i, 0, 0);
  return RandomDice(rc::Random(key));
}

class CostBudget {
 public:
  CostBudget(const Aim& aim, const Case& parent, Dice& dice) : aim_(aim) {
    parent_work_ = price(aim, parent).work;
    // As the draw does: most cases leave most of the work unused. One in five may be larger
    // than any drawn one: three heads with three tiles of queries and two of keys are.
    eighths_ = dice.weighted<int64_t>({{20, kMostEighths}, {10, 16}, {20, 8}, {28, 4}, {22, 2}});
    // What is a hundred times as slow must not become what a whole corpus descends from.
    long_ = dice.percent(30) || !is_long(parent.problem);
  }

  // Whether a case costs no more than a drawn one may, and than this one's share or its parent.
  bool affords(const Case& c) const {
    if (!affordable(c, aim_) || (is_long(c.problem) && !long_)) return false;
    const Price now = price(aim_, c);
    return now <= most(aim_, c, eighths_) || now.work <= parent_work_;
  }

 private:
  const Aim& aim_;
  int64_t eighths_;
  Wide parent_work_;
  bool long_;
};

// Gives up what was not changed, in any order, until the case is affordable.
void make_room(const Aim& aim, const Case& parent, const CostBudget& budget, Dice& dice, Case& c) {
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
  // A length or a size that was just changed is what the mutation is about.
  const auto keeps = [&](const Case& less) {
    return std::ranges::all_of(kNumbers,
                               [&](Number n) { return n(now) == n(before) || n(less.problem) == n(now); });
  };
  for (int i = 0; i < 20 && !budget.affords(c) && give_up(aim, dice, c, keeps); ++i) {
  }
  for (int i = 0; i < 20 && !budget.affords(c); ++i) give_up(aim, dice, c, [](const Case&) { return true; });
}

// Sizes that arithmetic on them may rely on: within what illegal() allows.
bool sane(const Problem& p) {
  constexpr int64_t kMost = int64_t{1} << 31;
  for (const int64_t n : {p.batch, p.heads_q, p.heads_kv, p.seq_q, p.seq_k}) {
    if (n < 0 || n > kMost) return false;
  }
  return p.heads_kv > 0;
}

// Makes a changed case consistent, affordable and legal. False if it is none of
// these, or nothing new.
bool legalize(const Aim& aim, const Case& parent, const CostBudget& budget, Dice& dice, Case& c) {
  c.remap = {};
  if (!aim.refused.nothing() && !dice.percent(3)) strip_refused(aim.refused, c, aim.work);
  if (!sane(c.problem)) return false;
  if (aim.domain) draw_within(*aim.domain, dice, c);
  fit_domain(aim, c);
  make_room(aim, parent, budget, dice, c);
  if (!budget.affords(c)) return false;
  if (c.env.variant > aim.variants) c.env.variant = aim.variants;
  if (has_many_heads(c.problem) && aim.variants > 0) c.env.variant = 1;
  tidy(c);
  if (aim.domain) lay_within(*aim.domain, c);
  if (illegal(c)) {
    // What can make it so is memory, as a rule: strides that no slot holds.
    for (TensorLayout& layout : c.layout) layout = {};
    if (aim.domain) lay_within(*aim.domain, c);
    if (illegal(c)) return false;
  }
  return c != parent;
}

void change(const Aim& aim, Dice& dice, Case& c) {
  enum { kRedraw, kNumber, kClass, kShape, kCalls, kValues, kOff };
  switch (dice.weighted<int>(
      {{36, kRedraw}, {30, kNumber}, {12, kClass}, {5, kShape}, {3, kCalls}, {7, kValues}, {7, kOff}})) {
    case kRedraw:
      c = redraw(c, aim, dice);
      return;
    case kNumber:
      return step_number(aim, dice, c);
    case kClass:
      return step_class(aim, dice, c);
    case kShape:
      return step_shape(aim, dice, c);
    case kCalls:
      return step_calls(dice, c);
    case kValues:
      return step_values(aim, dice, c);
    default:
      return step_off(dice, c);
  }
}

}  // namespace

Case mutate(const Case& c, const Aim& aim, uint64_t seed) {
  RandomDice dice = dice_of(seed, 1);
  if (!illegal(c)) {
    for (int i = 0; i < kTries; ++i) {
      const CostBudget budget(aim, c, dice);
      Case next = c;
      const int64_t changes = dice.weighted<int64_t>({{60, 1}, {30, 2}, {10, 4}});
      for (int64_t n = 0; n < changes; ++n) {
        change(aim, dice, next);
        if (!sane(next.problem)) break;
        tidy(next);  // the next change looks at what this one left
      }
      if (legalize(aim, c, budget, dice, next)) return next;
    }
  }
  // Nothing near it is legal and affordable: somewhere else, then, and not beyond the usual price.
  Case other = draw(aim, seed, dice.bits());
  for (int i = 0; i < kTries && !affordable(other, aim); ++i) other = draw(aim, seed, dice.bits());
  return other;
}

Case cross(const Case& a, const Case& b, const Aim& aim, uint64_t seed) {
  RandomDice dice = dice_of(seed, 2);
  if (!illegal(a) && !illegal(b)) {
    for (int i = 0; i < kTries; ++i) {
      const CostBudget budget(aim, a, dice);
      Case child = a;
      const int64_t percent = dice.pick<int64_t>({10, 25, 50});
      for (const Part* part : parts()) {
        if (dice.percent(percent)) part->take(child, b);
      }
      if (legalize(aim, a, budget, dice, child) && child != b) return child;
    }
  }
  return mutate(a, aim, seed);
}

}  // namespace attnfuzz
