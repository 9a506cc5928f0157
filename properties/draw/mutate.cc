#include "properties/draw/mutate.h"

#include <algorithm>
#include <array>

#include "properties/data/fills.h"
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

// Sizes of a case as far as its cost depends on them; numbers may be as large as
// a file asks for.
using Wide = __int128;

Wide whole(int64_t n, int64_t tile) { return (static_cast<Wide>(n) + tile - 1) / tile * tile; }

// Multiply-adds that a case asks for; and what a kernel spends that computes
// tiles of scores whole, by columns of 64.
Wide exact_work(const Problem& p) {
  return static_cast<Wide>(p.batch) * p.heads_q * p.seq_q * p.seq_k * (p.dim_qk + p.dim_v);
}

struct Price {
  Wide work, blocks, elements;
  bool operator<=(const Price& other) const {
    return work <= other.work && blocks <= other.blocks && elements <= other.elements;
  }
};

class CostBudget {
 public:
  CostBudget(const Aim& aim, const Case& parent, Dice& dice) : aim_(aim) {
    tile_q_ = std::ranges::max(aim.tiles_q);
    tile_k_ = std::ranges::max(aim.tiles_k);
    parent_work_ = price(parent.problem).work;
    // As the draw does: most cases leave most of the work unused. One in five may be larger
    // than any drawn one: three heads with three tiles of queries and two of keys are.
    eighths_ = dice.weighted<int64_t>({{20, kMostEighths}, {10, 16}, {20, 8}, {28, 4}, {22, 2}});
    // What is a hundred times as slow must not become what a whole corpus descends from.
    long_ = dice.percent(30) || !is_long(parent.problem);
  }

  // Room for whatever may be drawn at all.
  explicit CostBudget(const Aim& aim) : aim_(aim), eighths_(kMostEighths), long_(true) {
    tile_q_ = std::ranges::max(aim.tiles_q);
    tile_k_ = std::ranges::max(aim.tiles_k);
    parent_work_ = 0;
  }

  // Whether a case costs no more than a drawn one may, and than this one's share or its parent.
  bool affords(const Case& c) const {
    const Problem& p = c.problem;
    if (exact_work(p) > aim_.work || (is_long(p) && !long_)) return false;
    const Price price = this->price(p), most = limit(p, kMostEighths);
    return price <= most && (price <= limit(p, eighths_) || price.work <= parent_work_);
  }

 private:
  static constexpr int64_t kMostEighths = 48;  // of aim.work, counted in whole tiles
  // A sequence that 16 bits cannot count: the draw makes few, and the other one short.
  static bool is_long(const Problem& p) { return std::max(p.seq_q, p.seq_k) >= 32'768; }
  Price price(const Problem& p) const {
    const Wide rows = static_cast<Wide>(p.batch) * p.heads_q;
    const Wide q = whole(p.seq_q, tile_q_), columns = 2 * whole(std::max(p.dim_qk, p.dim_v), 64);
    return {rows * q * whole(p.seq_k, tile_k_) * columns,
            rows * (q / tile_q_) * std::max<int64_t>(p.num_splits, 1),
            static_cast<Wide>(p.batch) * std::max(p.heads_q * p.seq_q, p.heads_kv * p.seq_k) *
                std::max(p.dim_qk, p.dim_v)};
  }
  Price limit(const Problem& p, int64_t eighths) const {
    constexpr int64_t kBlocks = 140'000, kElements = 4'000'000, kLongest = 66'000;
    const Wide tile = static_cast<Wide>(tile_q_) * tile_k_ * 128;
    // Of a long one mostly padding: one row or column of tiles.
    const Wide work = is_long(p) ? tile * (kLongest / std::min(tile_q_, tile_k_))
                                 : std::max<Wide>(static_cast<Wide>(aim_.work) * eighths / 8, 8 * tile);
    return {work, kBlocks, kElements};
  }

  const Aim& aim_;
  int64_t tile_q_, tile_k_, eighths_;
  Wide parent_work_;
  bool long_;
};

// Gives up what was not changed, in any order, until the case is affordable.
void make_room(const Case& parent, const CostBudget& budget, Dice& dice, Case& c) {
  using Give = bool (*)(Problem&);
  // Each says whether it had something to give.
  static constexpr Give kGives[] = {
      [](Problem& p) { return p.batch > 1 ? (p.batch = 1, true) : false; },
      [](Problem& p) { return p.heads_q > p.heads_kv ? (p.heads_q = p.heads_kv, true) : false; },
      [](Problem& p) {
        if (p.heads_kv <= 1) return false;
        p.heads_q /= p.heads_kv;
        p.heads_kv = 1;
        return true;
      },
      [](Problem& p) {
        if (std::max(p.dim_qk, p.dim_v) <= 16) return false;
        p.dim_qk = std::max<int64_t>(p.dim_qk / 2, 1);
        p.dim_v = std::max<int64_t>(p.dim_v / 2, 1);
        return true;
      },
      [](Problem& p) { return p.num_splits > 2 ? (p.num_splits /= 2, true) : false; },
      [](Problem& p) { return p.seq_q > 16 ? (p.seq_q /= 2, true) : false; },
      [](Problem& p) { return p.seq_k > 16 ? (p.seq_k /= 2, true) : false; },
  };
  const Problem& before = parent.problem;
  const Problem& now = c.problem;
  const std::array<bool, std::size(kGives)> changed = {
      now.batch != before.batch,
      now.heads_q * before.heads_kv != before.heads_q * now.heads_kv,
      now.heads_kv != before.heads_kv,
      now.dim_qk != before.dim_qk || now.dim_v != before.dim_v,
      now.num_splits != before.num_splits,
      now.seq_q != before.seq_q,
      now.seq_k != before.seq_k};
  for (int i = 0; i < 40 && !budget.affords(c); ++i) {
    const auto at = static_cast<size_t>(dice.range(0, static_cast<int64_t>(std::size(kGives)) - 1));
    // A length or a size that was just changed is what the mutation is about.
    if (!changed[at] || i > 20) kGives[at](c.problem);
  }
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
  fit_domain(aim, c);
  make_room(parent, budget, dice, c);
  if (!budget.affords(c)) return false;
  if (c.env.variant > aim.variants) c.env.variant = aim.variants;
  if (has_many_heads(c.problem) && aim.variants > 0) c.env.variant = 1;
  tidy(c);
  if (illegal(c)) {
    // What can make it so is memory, as a rule: strides that no slot holds.
    for (TensorLayout& layout : c.layout) layout = {};
    if (illegal(c)) return false;
  }
  return c != parent;
}

void change(const Aim& aim, Dice& dice, Case& c) {
  enum { kRedraw, kNumber, kShape, kCalls, kValues, kOff };
  switch (
      dice.weighted<int>({{40, kRedraw}, {38, kNumber}, {5, kShape}, {3, kCalls}, {7, kValues}, {7, kOff}})) {
    case kRedraw:
      c = redraw(c, aim, dice);
      return;
    case kNumber:
      return step_number(aim, dice, c);
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
  // Nothing near it is legal and affordable: somewhere else, then.
  return draw(aim, seed, dice.bits());
}

bool affordable(const Case& c, const Aim& aim) { return CostBudget(aim).affords(c); }

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
