#include "properties/draw/generator.h"

#include <ostream>
#include <stdexcept>

#include "properties/case/codec.h"
#include "properties/data/fills.h"
#include "properties/draw/draw.h"
#include "properties/draw/random_dice.h"

namespace attnfuzz {
namespace {

// One case of so many has more heads than a grid has rows: exactly one, and the last
// of them, for it costs as much as hundreds of others. A prime, so that of jobs that
// take turns each gets its share.
constexpr uint64_t kManyHeadsEvery = 997;

Case make_case(const Aim& aim, const rc::Random& random, bool many_heads = false) {
  RandomDice dice(random);
  Case c;
  const bool spared = !aim.refused.nothing() && !dice.percent(3);
  for (const Phase phase : {Phase::kSizes, Phase::kVisibility, Phase::kValues, Phase::kMemory}) {
    draw_phase(phase, aim, dice, c);
    if (phase == Phase::kSizes && many_heads) draw_many_heads(dice, c);
    if (spared) strip_refused(aim.refused, c, aim.work);
    if (phase == Phase::kSizes && many_heads) {
      // A kernel of long rows alone makes of many heads more than a case may hold.
      Problem& p = c.problem;
      if (p.seq_q * p.seq_k > 64) p.batch = p.heads_q = p.heads_kv = 1;
    }
    fit_domain(aim, c);
  }
  if (!illegal(c)) return c;
  // What can make it so is memory: strides that no slot holds.
  for (TensorLayout& layout : c.layout) layout = {};
  if (const auto why = illegal(c)) throw std::logic_error("the generator drew an illegal case: " + *why);
  return c;
}

}  // namespace

rc::Gen<Case> arbitrary_case(const Aim& aim) {
  return [aim](const rc::Random& random, int) { return rc::shrinkable::just(make_case(aim, random)); };
}

void showValue(const Case& c, std::ostream& os) { os << encode(c); }

Case draw(const Aim& aim, uint64_t seed, uint64_t index) {
  rc::Random::Key key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = mix(seed, index, i, 0, 0);
  return make_case(aim, rc::Random(key), index % kManyHeadsEvery == kManyHeadsEvery - 1);
}

}  // namespace attnfuzz
