// Does a failing case show a bug that is already known, or another one?
//
// A kernel may have several bugs. A reduction that may turn into any simpler failing case ends at the simplest
// bug. Three rules keep bugs apart:
//   1. A reduction stays with the bug it began with, as far as can be told (stays_with): it does not jump to
//      a case that has other features or more tiles.
//   2. A finding explains a case that has all it needs and passes without any one of these parts (explains).
//      Keys can be hidden in several ways. A case that hides them in another way than the finding is first
//      re-encoded, and is explained only if it then fails with the same error.
//   3. A reduced case may explain earlier findings in the same way.
//
//   const NeededParts need = needed_parts(minimal, needs);  // seq_k >= 65, a mask
//   Explained e = explains(need, c, verdict, judge_it);    // this bug, as far as can be told?
//
// Sizes of 1 and values cannot be removed, so they are not among the parts. A finding without
// removable parts explains every failure of its kind. Another bug may need the same parts, so a
// failure is not counted under a tolerated finding because this explains it (triage.h).
#pragma once

#include <functional>
#include <vector>

#include "properties/case/case.h"
#include "properties/judge/verdict.h"
#include "properties/reduce/reduce.h"

namespace attnfuzz {

// The needs of a finding, as indices.
struct NeededParts {
  struct Size {
    int integer = 0;     // index into shrink_integers()
    int64_t value = 0;   // in the minimal case
    int64_t period = 0;  // 0: at least the value; > 0: its remainder; kExactly
    int64_t least = 0;   // for a remainder: the smallest size that fails
    static constexpr int64_t kExactly = -1;
  };
  std::vector<Size> sizes;
  std::vector<int> shrink_toggles;  // indices into shrink_toggles()
  // The sign says which length is greater. A length with an exact value may differ if the sign is the same:
  // "seq_k = 0" with one query means "more queries than keys".
  int more_queries = 0;
  int64_t tile_q = 0, tile_k = 0;  // of the minimal case's plan; lengths are comparable only for equal tiles
};

// `needs` as in Reduction.
NeededParts needed_parts(const Case& minimal, const std::vector<Need>& needs);

// True if the finding has a part that can be removed.
bool tells_apart(const NeededParts& need);

// For a reduction that must stay with its bug (ReduceOptions::may_take). A step must not reach a tile that
// the best case does not reach. A jump must keep the features, apart from values, and the number of tiles.
// It does not matter which of Q, K and V has an odd layout.
bool stays_with(const Case& best, const Verdict& verdict, const Case& to, Step step);

// Judges a case by the property `reference`. For a case as it was found, a failure with another reduction
// key counts as a rejection, because it may be another bug. For a reduced case, any failure counts.
using JudgeIt = std::function<Verdict(const Case&)>;

enum class Explains {
  kYes,
  kPerhaps,  // it hides keys in ways that the finding does not have
  // it lacks a part that the finding needs, fails without it, or passes when re-encoded like the finding
  kNo,
};
struct Explained {
  Explains answer;
  // The case that still fails without the finding's parts, or the case itself.
  Case c;
  Verdict verdict;
};
Explained explains(const NeededParts& need, const Case& c, const Verdict& verdict, const JudgeIt& judged);

}  // namespace attnfuzz
