#include "fuzz/campaign/triage/explained.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "properties/case/features/shrink_toggles.h"
#include "properties/reduce/reencode.h"
#include "properties/reduce/search.h"

namespace attnfuzz {
namespace {

constexpr int kMostRounds = 6;

const ShrinkToggle& toggle_at(int n) { return shrink_toggles()[static_cast<size_t>(n)]; }
const ShrinkInteger& integer_at(int n) { return shrink_integers()[static_cast<size_t>(n)]; }
bool hides(int n) { return toggle_at(n).trait == Trait::kHidesKeys; }

// True if a size helps to identify a bug. Head dimensions do not, because other parts can take their place. An
// exact number says more about the smallest case than about the bug.
bool tells(const NeededParts::Size& size) {
  return size.period == 0 && integer_at(size.integer).kind != IntegerKind::kDim;
}
bool tells(int n) {
  const Trait trait = toggle_at(n).trait;
  return !hides(n) && trait != Trait::kLayout && trait != Trait::kInputLayout;
}

int64_t period_of(const Need& need) {
  if (need.relation == Relation::kExactly) return NeededParts::Size::kExactly;
  return need.relation == Relation::kRemainder ? need.period : 0;
}

int more_queries(const Case& c) {
  return (c.problem.seq_q > c.problem.seq_k) - (c.problem.seq_q < c.problem.seq_k);
}

bool met(const NeededParts& need, const NeededParts::Size& size, const Case& c) {
  const ShrinkInteger& integer = integer_at(size.integer);
  if (!integer.applies(c)) return false;
  const int64_t now = integer.get(c);
  if (size.period == NeededParts::Size::kExactly)
    return now == size.value ||
           ((integer.kind == IntegerKind::kQueries || integer.kind == IntegerKind::kKeys) &&
            need.more_queries == more_queries(c));
  if (size.period > 0)
    return now >= std::max<int64_t>(size.least, 1) && now % size.period == size.value % size.period;
  return now >= size.value;
}

// The case without this part.
Case without(const NeededParts::Size& size, Case c) {
  const ShrinkInteger& integer = integer_at(size.integer);
  const int64_t now = integer.get(c);
  integer.set(c, size.period > 0 ? now + 1 : size.value - 1);
  tidy(c);
  return c;
}

Case without(int n, Case c) {
  toggle_at(n).remove(c);
  tidy(c);
  return c;
}

// The names of a case's parts.
std::set<std::string_view> parts_of(const Case& c) {
  std::set<std::string_view> parts;
  for (const ShrinkToggle& feature : shrink_toggles()) {
    if (!feature.present(c) || feature.trait == Trait::kValue || feature.trait == Trait::kSize) continue;
    parts.insert(feature.trait == Trait::kInputLayout ? "the layout of an input" : feature.name);
  }
  return parts;
}

std::array<bool, 3> beyond_first_tile(const Case& c, const Verdict& verdict) {
  const Problem& p = c.problem;
  constexpr int64_t kWidest = 64;  // head dimensions of the smallest shape
  return {p.seq_q > verdict.plan.tile_q, p.seq_k > verdict.plan.tile_k, std::max(p.dim_qk, p.dim_v) > kWidest};
}

struct Beyond {
  Case c;
  Verdict verdict;
};
struct Tested {
  Explains answer;
  std::optional<Beyond> less;  // the case that still fails without one of the parts
};

Tested test(const NeededParts& need, const Case& found, const Verdict& verdict, const JudgeIt& judged) {
  Case c = found;
  bool reencoded = false;
  const bool same_tiles = need.tile_q == verdict.plan.tile_q && need.tile_k == verdict.plan.tile_k;
  const auto has = [](int n, const Case& x) { return toggle_at(n).present(x); };
  for (const NeededParts::Size& size : need.sizes) {
    if (!met(need, size, c)) return {same_tiles && tells(size) ? Explains::kNo : Explains::kPerhaps, {}};
  }
  for (int n : need.shrink_toggles) {
    if (!hides(n) && !has(n, c)) return {tells(n) ? Explains::kNo : Explains::kPerhaps, {}};
  }
  if (!std::ranges::all_of(need.shrink_toggles, [&](int n) { return has(n, c); })) {
    // It hides keys in another way than the finding does.
    bool said = false, fails_otherwise = false;
    for (const Reencoding& other : reencodings(found, verdict)) {
      if (!std::ranges::all_of(need.shrink_toggles, [&](int n) { return has(n, other.c); })) continue;
      const Verdict again = judged(other.c);
      said |= again.outcome == Outcome::kPass;
      fails_otherwise |= again.outcome != Outcome::kPass;
      if (again.outcome != Outcome::kFail || !same_error(verdict, again, other.same_rows)) continue;
      c = other.c;
      reencoded = true;
      break;
    }
    // Re-encoded like the finding, the case passes, so it shows another bug. If lengths matter too,
    // other rows may show the finding's bug.
    if (!reencoded)
      return {said && !fails_otherwise && need.sizes.empty() ? Explains::kNo : Explains::kPerhaps, {}};
  }
  const auto still_fails = [&](Case less, bool sure) -> std::optional<Tested> {
    if (less == c || illegal(less)) return std::nullopt;
    Verdict again = judged(less);
    if (again.outcome == Outcome::kPass) return std::nullopt;
    if (again.outcome != Outcome::kFail) return Tested{Explains::kPerhaps, {}};
    if (reencoded) return Tested{Explains::kPerhaps, {}};
    return Tested{sure ? Explains::kNo : Explains::kPerhaps, Beyond{std::move(less), std::move(again)}};
  };
  for (const NeededParts::Size& size : need.sizes) {
    // An exact size tells nothing: a larger case may also fail at the sizes beside it.
    if (size.period == NeededParts::Size::kExactly) continue;
    if (auto not_it = still_fails(without(size, c), same_tiles && tells(size))) return *not_it;
  }
  for (int n : need.shrink_toggles) {
    if (auto not_it = still_fails(without(n, c), tells(n))) return *not_it;
  }
  // An exact length does not tell enough.
  return {need.sizes.empty() || tells_apart(need) ? Explains::kYes : Explains::kPerhaps, {}};
}

}  // namespace

bool tells_apart(const NeededParts& need) {
  const auto can_be_taken_away = [](const NeededParts::Size& size) {
    return size.period != NeededParts::Size::kExactly;
  };
  return std::ranges::any_of(need.sizes, can_be_taken_away) || !need.shrink_toggles.empty();
}

bool stays_with(const Case& best, const Verdict& verdict, const Case& to, Step step) {
  const auto now = beyond_first_tile(best, verdict), then = beyond_first_tile(to, verdict);
  if (step == Step::kJump) return now == then && parts_of(best) == parts_of(to);
  return std::ranges::equal(now, then, [](bool is, bool will_be) { return is || !will_be; });
}

NeededParts needed_parts(const Case& minimal, const std::vector<Need>& needs) {
  NeededParts need;
  need.more_queries = more_queries(minimal);
  for (size_t n = 0; n < shrink_integers().size(); ++n) {
    const ShrinkInteger& integer = shrink_integers()[n];
    if (!integer.applies(minimal)) continue;
    for (const Need& said : needs) {
      if (said.part != integer.name) continue;
      const NeededParts::Size size = {static_cast<int>(n), integer.get(minimal), period_of(said), said.least};
      if (size.period <= 0 && size.value == 1) continue;
      if (size.period == 0 && size.value == 0) continue;
      need.sizes.push_back(size);
    }
  }
  for (size_t n = 0; n < shrink_toggles().size(); ++n) {
    const ShrinkToggle& feature = shrink_toggles()[n];
    const bool counted = feature.trait == Trait::kCounted || feature.trait == Trait::kSize;
    if (feature.present(minimal) && !counted) need.shrink_toggles.push_back(static_cast<int>(n));
  }
  return need;
}

Explained explains(const NeededParts& need, const Case& c, const Verdict& verdict, const JudgeIt& judged) {
  Beyond now = {c, verdict};
  Explains answer = Explains::kPerhaps;
  for (int round = 0; round < kMostRounds; ++round) {
    Tested tested = test(need, now.c, now.verdict, judged);
    answer = tested.answer;
    // A failure with several equivalent parts may still be explained once one of them is removed.
    if (answer == Explains::kYes || !tested.less) break;
    now = std::move(*tested.less);
    if (answer == Explains::kNo) break;
  }
  return {answer, std::move(now.c), std::move(now.verdict)};
}

}  // namespace attnfuzz
