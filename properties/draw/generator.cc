#include "properties/draw/generator.h"

#include <optional>
#include <ostream>
#include <stdexcept>

#include "properties/case/codec.h"
#include "properties/case/domain.h"
#include "properties/case/switches.h"
#include "properties/data/fills.h"
#include "properties/draw/axes/axis.h"
#include "properties/draw/covering.h"
#include "properties/draw/draw.h"
#include "properties/draw/ordinary.h"
#include "properties/draw/random_dice.h"

namespace attnfuzz {
namespace {

// One case of so many has more heads than a grid has rows: exactly one, for it costs as
// much as hundreds of others, and early enough for a check of 500. A prime, so that of
// jobs that take turns each gets its share.
constexpr uint64_t kManyHeadsEvery = 997, kManyHeadsAt = 300;
// And one of so many a length beyond 16 bits.
constexpr uint64_t kLongEvery = 251, kLongAt = 83;
// One case in kOrdinaryOf is ordinary (ordinary.h), and one in kFarOf of those exceeds the usual price. One
// case in kSplitsOf has many splits that hold keys, if the kernel has splits. One in kWideOf is wide.
constexpr uint64_t kOrdinaryOf = 9, kFarOf = 10, kSplitsOf = 45, kWideOf = 66;
// Of the axes of a case that is asked for anything; of the odd ones, in a case that is to have such.
constexpr int64_t kPercentAsked = 25, kPercentOdd = 50;
// Of those of them that leave nothing to compute: few show more than one.
constexpr int64_t kPercentEmpty = 30;
// Of those that are asked for much at once, as dear as any may be: three heads of three query tiles and two
// of keys are, and two batch entries of four tiles of keys.
constexpr int64_t kPercentDear = 34;

// What a case is asked for beyond what its features draw.
struct Asked {
  std::optional<uint64_t> many_heads = {};  // which of them
  std::optional<Longest> longest = {};
  enum Sort : uint8_t { kAny, kOrdinary, kFar, kSplits, kWide } sort = kAny;
  uint64_t number = 0;        // of an ordinary one
  bool anything = false;      // classes of some of the axes, each as likely as the next
  std::vector<Ask> row = {};  // classes that it must have together, as far as it can
  bool plain = false;         // nothing is to add to its scores
  bool odd = false;           // several tensors lie by odd strides
  bool together = false;      // the row is one of those that steer, drawn with the case
  bool keeps_keys = false;    // several tiles of keys stay several, unless the row says otherwise
  bool ordinary() const { return sort == kOrdinary || sort == kFar; }
};

void ask(Phase phase, const Asked& asked, const Aim& aim, Dice& dice, Case& c) {
  const Tiling tiling = tiling_of(aim, c);
  const Toss toss = {aim, dice, tiling.q, tiling.k};
  for (const CaseAxis& axis : axes()) {
    if (!asked.anything || axis.phase != phase ||
        !dice.percent(!axis.odd   ? kPercentAsked
                      : asked.odd ? kPercentOdd
                                  : 0))
      continue;
    if (axis.of({c, c.problem, tiling.q, tiling.k, c.problem.num_splits}) == kNoClass) continue;
    const Case before = c;
    axis.make(toss, static_cast<int>(dice.range(0, axis.usual() - 1)), c);
    if (is_empty(c.problem) && !dice.percent(kPercentEmpty)) c = before;
    if (asked.keeps_keys && c.problem.seq_k < before.problem.seq_k) c = before;
    if (asked.plain && adds_to_scores(c.problem) && !adds_to_scores(before.problem)) c = before;
  }
  if (asked.plain && !asked.row.empty() && !asked.together) {
    c.problem.mask.reset(), c.problem.bias.reset();
    c.problem.softcap = 0;
  }
  for (const Ask& one : asked.row) {
    if (axes()[one.axis].phase == phase) axes()[one.axis].make(toss, one.at, c);
  }
}

Case make_case(const Aim& given, const rc::Random& random, Asked asked) {
  RandomDice dice(random);
  if (asked.together) asked.row = given.covering ? given.covering->together(dice) : together(dice);
  Case c;
  const bool spared = !given.refused.nothing() && !dice.percent(3);
  const std::optional<Aim> narrower = spared ? spared_sizes(given) : std::nullopt;
  const Aim& aim = narrower ? *narrower : given;
  const auto stay_within = [&] {
    if (aim.domain) draw_within(*aim.domain, dice, c);
  };
  for (const Phase phase : {Phase::kSizes, Phase::kVisibility, Phase::kValues, Phase::kMemory}) {
    draw_phase(phase, aim, dice, c);
    if (asked.ordinary()) {
      make_ordinary(phase, aim, dice, {asked.number, asked.sort == Asked::kFar}, c);
    } else {
      ask(phase, asked, aim, dice, c);
    }
    if (phase == Phase::kSizes && aim.domain) draw_said(*aim.domain, dice, c.problem);
    if (phase == Phase::kSizes) stay_within();
    if (phase == Phase::kSizes && !asked.ordinary()) {
      fit_sizes(aim, dice, c, asked.row, asked.together ? kPercentDear : kPercentDearest);
      // Both choose the number of keys themselves, so a domain that says it leaves them out.
      const bool free = !aim.domain || !says_lengths(aim.domain->seq_k);
      if (free && asked.sort == Asked::kSplits) draw_many_splits(aim, dice, c);
      if (free && asked.sort == Asked::kWide) draw_wide(aim, dice, c);
      if (asked.longest) draw_long(aim, dice, *asked.longest, c);
      if (asked.many_heads) draw_many_heads(aim, dice, *asked.many_heads, c);
      stay_within();
    }
    if (spared) strip_refused(aim.refused, c, aim.work);
    if (phase == Phase::kSizes && asked.many_heads) {
      // A kernel of long rows alone makes of many heads more than a case may hold.
      Problem& p = c.problem;
      if (p.seq_q * p.seq_k > 64) p.batch = p.heads_q = p.heads_kv = 1;
    }
    fit_domain(aim, c);
  }
  tidy(c);
  if (!illegal(c)) return c;
  // What can make it so is memory: strides that no slot holds, and of a domain of long sequences
  // a mask or a bias of every score.
  for (TensorLayout& layout : c.layout) layout = {};
  if (aim.domain) lay_within(*aim.domain, c);
  Problem& p = c.problem;
  for (Broadcast* of : {p.mask ? &p.mask->broadcast : nullptr, p.bias ? &p.bias->broadcast : nullptr}) {
    if (of && illegal(c)) *of = {.batch = true, .head = true, .query = true};
  }
  const auto why = illegal(c);
  if (why && aim.domain)
    throw std::runtime_error("what the kernel is to take is more than a case may be: " + *why);
  if (why) throw std::logic_error("the generator drew an illegal case: " + *why);
  return c;
}

// One of each two cases, either: the properties take turns, and of an even number of them
// each must get both.
bool asks(uint64_t seed, uint64_t index) { return (index ^ mix(seed, index / 2, 1, 0, 0)) % 2 == 1; }
// Of each `of` cases in a row one, at a place of its own: the properties take turns, and must all get some.
bool is_one_of(uint64_t of, uint64_t seed, uint64_t index, uint64_t purpose) {
  return index % of == mix(seed, index / of, purpose, 0, 0) % of;
}
Asked::Sort sort_of(const Aim& aim, uint64_t seed, uint64_t index) {
  if (aim.splits && is_one_of(kSplitsOf, seed, index, 3)) return Asked::kSplits;
  if (is_one_of(kWideOf, seed, index, 4)) return Asked::kWide;
  if (!is_one_of(kOrdinaryOf, seed, index, 5)) return Asked::kAny;
  return is_one_of(kFarOf, seed, index / kOrdinaryOf, 6) ? Asked::kFar : Asked::kOrdinary;
}
// And of the others one of each two.
bool asks_together(uint64_t seed, uint64_t index) { return mix(seed, index / 2, 2, 0, 0) % 2 == 1; }

}  // namespace

rc::Gen<Case> arbitrary_case(const Aim& aim) {
  return [aim](const rc::Random& random, int) { return rc::shrinkable::just(make_case(aim, random, {})); };
}

void showValue(const Case& c, std::ostream& os) { os << encode(c); }

Case draw(const Aim& aim, uint64_t seed, uint64_t index) {
  rc::Random::Key key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = mix(seed, index, i, 0, 0);
  Asked asked;
  if (index % kManyHeadsEvery == kManyHeadsAt) asked.many_heads = index / kManyHeadsEvery;
  if (const uint64_t n = index / kLongEvery; index % kLongEvery == kLongAt)
    asked.longest = {.keys = n % 2 == 0, .reach = n / 2 % 2 == 0 ? Longest::kSigned : Longest::kUnsigned};
  if (!asked.many_heads && !asked.longest) asked.sort = sort_of(aim, seed, index);
  asked.number = index / kOrdinaryOf + mix(seed, 0, 7, 0, 0) % 1024;
  // What is dear is made the most of, but for what is dearest: that is called once.
  asked.anything = (asks(seed, index) || asked.longest) && !asked.many_heads && !asked.ordinary();
  asked.together = !asked.anything && !asked.many_heads && !asked.ordinary() && asks_together(seed, index);
  asked.odd = asked.anything && Covering::odd(index / 2);
  if (asked.anything && aim.covering) asked.row = aim.covering->row(seed, index / 2);
  asked.keeps_keys = index / 4 % 3 != 0;
  asked.plain = std::ranges::none_of(asked.row, [](const Ask& one) { return adds_to_scores(one); });
  if (asked.sort != Asked::kFar) return make_case(aim, rc::Random(key), asked);
  Aim far = aim;
  far.work = far_work(aim);
  return make_case(far, rc::Random(key), asked);
}

}  // namespace attnfuzz
