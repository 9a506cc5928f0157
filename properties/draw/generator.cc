#include "properties/draw/generator.h"

#include <optional>
#include <ostream>
#include <stdexcept>

#include "properties/axes/axis.h"
#include "properties/case/codec/codec.h"
#include "properties/case/features/domain.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/features/visibility/pattern.h"
#include "properties/data/fills.h"
#include "properties/draw/covering.h"
#include "properties/draw/draw.h"
#include "properties/draw/long_rows.h"
#include "properties/draw/ordinary.h"
#include "properties/draw/rapidcheck_rng.h"

namespace attnfuzz {
namespace {

// One case in kManyHeadsEvery has more heads than a grid has rows, because such a case costs as much as
// hundreds of others. The first one comes early enough for a check of 500 cases. The number is prime, so
// that jobs that take turns all get their share.
constexpr uint64_t kManyHeadsEvery = 997, kManyHeadsAt = 300;
// One case in kLongEvery has a length beyond 16 bits.
constexpr uint64_t kLongEvery = 251, kLongAt = 83;
// One case in kOrdinaryOf is ordinary (ordinary.h), and one in kFarOf of those exceeds the usual price. One
// case in kSplitsOf has many splits that hold keys, if the kernel has splits. One in kWideOf is wide.
constexpr uint64_t kOrdinaryOf = 9, kFarOf = 10, kSplitsOf = 45, kWideOf = 66;
// If a GPU judges batches, one case in kLongRowsOf has a long row.
constexpr uint64_t kLongRowsOf = 10;  // a long row costs as much device time as some 25 short ones
// CaseRequest::anything gives a case classes of this percentage of the axes. In a case with odd strides, this
// is kPercentOdd for odd axes.
constexpr int64_t kPercentAsked = 25, kPercentOdd = 50;
// If such a class leaves nothing to compute, it is kept with this chance.
constexpr int64_t kPercentEmpty = 30;
// Percent of the cases with a row of steering classes that may cost as much as any case may. Three heads with
// three query tiles and two key tiles cost that much, and so do two batch entries of four key tiles.
constexpr int64_t kPercentDear = 34;

// A request for a case, beyond what its features draw.
struct CaseRequest {
  std::optional<uint64_t> many_heads = {};  // which kind of many heads
  std::optional<Longest> longest = {};
  enum Sort : uint8_t { kAny, kOrdinary, kFar, kSplits, kWide, kLongRows } sort = kAny;
  uint64_t number = 0;                // number of an ordinary case
  bool anything = false;              // classes of some axes, all classes equally likely
  std::vector<AxisRequest> row = {};  // classes that the case should have together, as far as possible
  bool plain = false;                 // no mask, bias or softcap
  bool odd = false;                   // several tensors have odd strides
  bool together = false;              // the row consists of steering classes, drawn with the case
  bool keeps_keys = false;            // `anything` must not shorten the keys; the row still may
  bool ordinary() const { return sort == kOrdinary || sort == kFar; }
};

void make_requested(Phase phase, const CaseRequest& request, const GeneratorConfig& config, Rng& rng, Case& c) {
  const Tiling tiling = tiling_of(config, c);
  const DrawContext context = {config, rng, tiling.q, tiling.k};
  for (const CaseAxis& axis : axes()) {
    if (!request.anything || axis.phase != phase ||
        !rng.percent(!axis.odd     ? kPercentAsked
                     : request.odd ? kPercentOdd
                                   : 0))
      continue;
    if (axis.of({c, c.problem, tiling.q, tiling.k, c.problem.num_splits}) == kNoClass) continue;
    const Case before = c;
    axis.make(context, static_cast<int>(rng.range(0, axis.usual() - 1)), c);
    if (is_empty(c.problem) && !rng.percent(kPercentEmpty)) c = before;
    if (request.keeps_keys && c.problem.seq_k < before.problem.seq_k) c = before;
    if (request.plain && adds_to_scores(c.problem) && !adds_to_scores(before.problem)) c = before;
  }
  if (request.plain && !request.row.empty() && !request.together) {
    c.problem.mask.reset(), c.problem.bias.reset();
    c.problem.softcap = 0;
  }
  for (const AxisRequest& one : request.row) {
    if (axes()[one.axis].phase == phase) axes()[one.axis].make(context, one.at, c);
  }
}

// The streams of random numbers of a case. Features and patterns that were added later have their
// own streams.
struct Randoms {
  rc::Random first, later, patterns;  // for phases before kLater; for kLater; for later kinds of patterns
};

Case make_case(const GeneratorConfig& given, const Randoms& randoms, CaseRequest request) {
  RapidcheckRng rng(randoms.first), later(randoms.later), patterns(randoms.patterns);
  if (request.together) request.row = given.covering ? given.covering->together(rng) : together(rng);
  Case c;
  const bool spared = !given.refused.nothing() && !rng.percent(3);
  const std::optional<GeneratorConfig> narrower = spared ? spared_sizes(given) : std::nullopt;
  const GeneratorConfig& config = narrower ? *narrower : given;
  const auto stay_within = [&] {
    if (config.domain) draw_within(*config.domain, rng, c);
  };
  for (const Phase phase : {Phase::kSizes, Phase::kVisibility, Phase::kValues, Phase::kMemory}) {
    draw_phase(phase, config, rng, c);
    if (request.ordinary()) {
      make_ordinary(phase, config, rng, {request.number, request.sort == CaseRequest::kFar}, c);
    } else {
      make_requested(phase, request, config, rng, c);
    }
    if (phase == Phase::kSizes && config.domain) draw_said(*config.domain, rng, c.problem);
    if (phase == Phase::kSizes) stay_within();
    if (phase == Phase::kSizes && !request.ordinary()) {
      fit_sizes(config, rng, c, request.row, request.together ? kPercentDear : kPercentDearest);
      // The first three choose the number of keys themselves, so they are left out if the domain lists lengths.
      const bool free = !config.domain || !says_lengths(config.domain->seq_k);
      if (free && request.sort == CaseRequest::kSplits) draw_many_splits(config, rng, c);
      if (free && request.sort == CaseRequest::kWide) draw_wide(config, rng, c);
      if (free && request.sort == CaseRequest::kLongRows) draw_long_rows(config, rng, c);
      if (request.longest) draw_long(config, rng, *request.longest, c);
      if (request.many_heads) draw_many_heads(config, rng, *request.many_heads, c);
      stay_within();
    }
    if (spared) strip_refused(config.refused, c, config.work);
    if (phase == Phase::kSizes && request.many_heads) {
      // If the kernel takes long rows only, many heads would exceed what a case may hold.
      Problem& p = c.problem;
      if (p.seq_q * p.seq_k > 64) p.batch = p.heads_q = p.heads_kv = 1;
    }
    fit_domain(config, c);
  }
  draw_phase(Phase::kLater, config, later, c);
  if (request.row.empty()) draw_later_pattern(patterns, c.problem);
  tidy(c);
  if (config.domain) lay_within(*config.domain, c);  // packed entries and pages have changed the sizes
  if (!illegal(c)) return c;
  // A case can be illegal through its memory: through strides that no slot holds, or, in a domain of long
  // sequences, through a mask or a bias for every score.
  for (TensorLayout& layout : c.layout) layout = {};
  if (config.domain) lay_within(*config.domain, c);
  Problem& p = c.problem;
  for (Broadcast* of : {p.mask ? &p.mask->broadcast : nullptr, p.bias ? &p.bias->broadcast : nullptr}) {
    if (of && illegal(c)) *of = {.batch = true, .head = true, .query = true};
  }
  const auto why = illegal(c);
  if (why && config.domain) throw std::runtime_error("the kernel's domain is too large for a case: " + *why);
  if (why) throw std::logic_error("the generator drew an illegal case: " + *why);
  return c;
}

// Selects one of each pair of cases, at random within the pair. The properties take turns over the cases. If
// their number is even, each property must still get both kinds of cases.
bool asks(uint64_t seed, uint64_t index) { return (index ^ mix(seed, index / 2, 1, 0, 0)) % 2 == 1; }
// Selects one of each `of` consecutive cases, at random within the group, because the properties take turns
// and must all get some.
bool is_one_of(uint64_t of, uint64_t seed, uint64_t index, uint64_t purpose) {
  return index % of == mix(seed, index / of, purpose, 0, 0) % of;
}
CaseRequest::Sort sort_of(const GeneratorConfig& config, uint64_t seed, uint64_t index) {
  if (config.device_work > 0 && is_one_of(kLongRowsOf, seed, index, 10)) return CaseRequest::kLongRows;
  if (config.splits && is_one_of(kSplitsOf, seed, index, 3)) return CaseRequest::kSplits;
  if (is_one_of(kWideOf, seed, index, 4)) return CaseRequest::kWide;
  if (!is_one_of(kOrdinaryOf, seed, index, 5)) return CaseRequest::kAny;
  return is_one_of(kFarOf, seed, index / kOrdinaryOf, 6) ? CaseRequest::kFar : CaseRequest::kOrdinary;
}
// Selects half of the remaining cases at random.
bool asks_together(uint64_t seed, uint64_t index) { return mix(seed, index / 2, 2, 0, 0) % 2 == 1; }

}  // namespace

rc::Gen<Case> arbitrary_case(const GeneratorConfig& config) {
  return [config](const rc::Random& random, int) {
    rc::Random left = random;
    rc::Random right = left.split();
    const rc::Random patterns = right.split();
    return rc::shrinkable::just(make_case(config, {left, right, patterns}, {}));
  };
}

void showValue(const Case& c, std::ostream& os) { os << encode(c); }

Case draw(const GeneratorConfig& config, uint64_t seed, uint64_t index) {
  const auto random = [&](size_t number) {
    rc::Random::Key key;
    for (size_t i = 0; i < key.size(); ++i) key[i] = mix(seed, index, number * key.size() + i, 0, 0);
    return rc::Random(key);
  };
  const Randoms randoms = {random(0), random(1), random(2)};
  CaseRequest request;
  if (index % kManyHeadsEvery == kManyHeadsAt) request.many_heads = index / kManyHeadsEvery;
  if (const uint64_t n = index / kLongEvery; index % kLongEvery == kLongAt)
    request.longest = {.keys = n % 2 == 0, .reach = n / 2 % 2 == 0 ? Longest::kSigned : Longest::kUnsigned};
  if (!request.many_heads && !request.longest) request.sort = sort_of(config, seed, index);
  request.number = index / kOrdinaryOf + mix(seed, 0, 7, 0, 0) % 1024;
  // A case with a very long sequence always asks for anything, because it is too costly to be wasted. A case
  // with many heads never does.
  request.anything = (asks(seed, index) || request.longest) && !request.many_heads && !request.ordinary();
  const bool long_rows = request.sort == CaseRequest::kLongRows;  // draw_long_rows() replaces the sizes
  request.together = !request.anything && !request.many_heads && !request.ordinary() && !long_rows &&
                     asks_together(seed, index);
  request.odd = request.anything && Covering::odd(index / 2);
  if (request.anything && !long_rows && config.covering) request.row = config.covering->row(seed, index / 2);
  request.keeps_keys = long_rows || index / 4 % 3 != 0;
  request.plain = std::ranges::none_of(request.row, [](const AxisRequest& one) { return adds_to_scores(one); });
  if (long_rows) return make_case(with_device_work(config), randoms, request);
  if (request.sort != CaseRequest::kFar) return make_case(config, randoms, request);
  GeneratorConfig far = config;
  far.work = far_work(config);
  return make_case(far, randoms, request);
}

}  // namespace attnfuzz
