#include "properties/reduce/reduce.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "properties/case/features/cost.h"
#include "properties/reduce/candidates.h"
#include "properties/reduce/canonical_cases.h"
#include "properties/reduce/passes.h"
#include "properties/reduce/reencode.h"
#include "properties/reduce/vary.h"

namespace attnfuzz {
namespace {

// Small cases are cheap, but a failure that none of them shows should not wait for all of them.
constexpr size_t kMostSmallCases = 600;
constexpr int64_t kLong = 4096;
constexpr double kShareOfSmallCases = 0.4;
constexpr size_t kMostCandidates = 2000;  // evaluations; fewer cases if each is tried more than once
constexpr double kShareOfCanonicalCases = 0.2;
// A failure that takes longer, such as a hang or a crash, is not worth the canonical cases.
constexpr double kDearFailureSeconds = 0.05;
constexpr double kShareOfVarying = 0.1;

void try_small_cases(Search& s, const Leftovers& left) {
  const std::vector<Case> cases = small_cases(s.best(), left, s.borders(), kMostSmallCases);
  const double until = s.elapsed() + kShareOfSmallCases * s.options().seconds;
  for (const Case& c : cases) {
    if (s.elapsed() > until || s.attempt(c, Step::kJump)) return;
  }
}

// Follows each re-encoded case to its own minimum, and keeps the simplest.
void try_reencodings(Search& s) {
  for (bool moved = true; moved && !s.out_of_time();) {
    moved = false;
    const Case home = s.best();
    const Verdict seen = s.verdict();
    for (const Reencoding& other : reencodings(home, seen)) {
      Verdict verdict;
      if (s.ask(other.c, &verdict) != Search::Answer::kFails) continue;
      if (!same_error(seen, verdict, other.same_rows)) continue;
      s.restart(other.c, verdict);
      s.avoid(home);  // it may be only one step away
      shrink(s);
      s.avoid_nothing();
      if (complexity(s.best()) < complexity(home)) {
        moved = true;
        break;
      }
      s.restart(home, seen);
    }
  }
}

// True if a canonical case replaced the best case.
bool climb(Search& s) {
  if (s.seconds_of_a_failure() > kDearFailureSeconds) return false;
  const size_t limit = kMostCandidates / static_cast<size_t>(std::max(s.options().attempts, 1));
  const double until = s.elapsed() + kShareOfCanonicalCases * s.options().seconds;
  std::vector<int32_t> variants = {1};
  if (s.best().env.variant != 1) variants.push_back(s.best().env.variant);
  for (const int32_t variant : variants) {
    CandidateBase base{.build_kind = s.best().build_kind,
                       .features = s.best().problem.features,
                       .known = s.options().features,
                       .variant = variant,
                       .tiles = s.borders()};
    if (!find_base(s, base)) continue;
    for (const std::vector<Case>& candidates :
         {canonical_cases(base, complexity(s.best()), limit), exchanges(base, s.best(), limit)}) {
      for (const Case& candidate : candidates) {
        if (s.elapsed() > until) return false;
        if (s.attempt(candidate, Step::kJump)) return true;
      }
    }
  }
  return false;
}

// A kernel that accesses the wrong place meets an unmapped page, a NaN or a large number, depending on what
// lies there. With the usual surroundings, all cases of such a bug show it in the same way. If the LSE is
// wanted, one more output can show it.
void usual_surroundings(Case& c) {
  c.poison = Case{}.poison;
  for (TensorLayout& layout : c.layout) layout.placement = TensorLayout{}.placement;
}

void wanted_lse(Case& c) { c.want_lse = true; }

// A clean workspace holds NaN; a used one may hold numbers.
void clean_workspace(Case& c) {
  for (Call& call : c.calls) call.dirty_workspace = false;
}

// Where the oracle allows any value, for instance next to an infinity, two results may differ. With plain
// values the oracle says which one is wrong.
void plain_values(Case& c) {
  c.planted.clear();
  c = with_data(std::move(c), regimes()[0]);
}

// An infinity or a NaN may be a wrong number that grew, or data that a wrong stride reached. With plain
// values and dense tensors, the bug may show as a wrong number.
void plain_values_and_layouts(Case& c) {
  plain_values(c);
  c.layout = {};
}

// As plain_values_and_layouts(), but with fills in which rows differ.
void told_apart(Case& c) {
  plain_values_and_layouts(c);
  c = with_data(std::move(c), regimes()[1]);
}

struct Start {
  Case c;
  Verdict verdict;
  bool moved = false;
};

// Chooses the case from which the reduction starts.
Start start_of(const Case& c, const Verdict& verdict, const Evaluate& evaluate) {
  Start start = {c, verdict};
  for (const auto change : {usual_surroundings, clean_workspace, wanted_lse, plain_values}) {
    if (change == plain_values && start.verdict.kind != Kind::kRelation) continue;
    Case usual = start.c;
    change(usual);
    if (usual == start.c) continue;
    Verdict there = evaluate(usual);
    if (there.outcome == Outcome::kFail) start = {std::move(usual), std::move(there), true};
  }
  return start;
}

// Changes a case that ends in an infinity or a NaN so that it shows a wrong number instead.
std::optional<Start> as_wrong_number(const Case& c, const Verdict& verdict, const Evaluate& evaluate) {
  if (verdict.kind != Kind::kNonFinite) return std::nullopt;
  for (const auto change : {plain_values_and_layouts, told_apart}) {
    Case plain = c;
    change(plain);
    Verdict there = evaluate(plain);
    if (there.outcome == Outcome::kFail && there.kind == Kind::kWrong)
      return Start{std::move(plain), std::move(there), true};
  }
  return std::nullopt;
}

Reduction reduce_from(const Case& failing, const Verdict& verdict, const std::string& key,
                      const Evaluate& evaluate, const std::function<std::string(const Verdict&)>& key_of,
                      const ReduceOptions& options) {
  ReduceOptions shares = options;
  shares.seconds = options.seconds * (1 - kShareOfVarying);
  Search s(failing, verdict, key, evaluate, key_of, shares);
  // Each evaluation of long rows takes seconds, so they are shortened first.
  if (std::max(failing.problem.seq_q, failing.problem.seq_k) > kLong) shrink_lengths(s);
  const Leftovers left = strip(s);
  try_small_cases(s, left);
  do {
    shrink(s);
    try_reencodings(s);
  } while (climb(s));

  Reduction result;
  result.complete = !s.out_of_time();
  result.minimal = s.best();
  result.verdict = s.verdict();
  result.reached = s.best_found_after();
  s.give(options.seconds);
  const Variation variation = vary(s);
  result.needs = variation.needs;
  result.indifferent = variation.indifferent;
  result.evaluations = s.evaluations();
  return result;
}

}  // namespace

Reduction reduce(const Case& failing, const Verdict& verdict, const std::string& key, const Evaluate& evaluate,
                 const std::function<std::string(const Verdict&)>& key_of, const ReduceOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const Start start = start_of(failing, verdict, evaluate);
  Reduction first =
      reduce_from(start.c, start.verdict, start.moved ? key_of(start.verdict) : key, evaluate, key_of, options);
  // The reduced case may fail with usual surroundings or plain values where the found case did not.
  ReduceOptions rest = options;
  rest.seconds -= std::chrono::duration<double>(Clock::now() - began).count();
  if (!first.complete || rest.seconds <= 0) return first;
  const auto go_on = [&](const Start& from) {
    Reduction second = reduce_from(from.c, from.verdict, key_of(from.verdict), evaluate, key_of, rest);
    second.reached += first.evaluations;
    second.evaluations += first.evaluations;
    return second;
  };
  const Start again = start_of(first.minimal, first.verdict, evaluate);
  if (again.moved) return go_on(again);
  const auto other = as_wrong_number(first.minimal, first.verdict, evaluate);
  const auto same = [&](const Start& x) {
    return !options.may_take || options.may_take(first.minimal, first.verdict, x.c, Step::kJump);
  };
  if (other && same(*other)) {
    Reduction second = go_on(*other);
    if (complexity(second.minimal) < complexity(first.minimal)) return second;
    first.evaluations = second.evaluations;
  }
  return first;
}

}  // namespace attnfuzz
