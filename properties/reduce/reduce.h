// The reducer finds the smallest case that still shows the same failure.
//
// All front ends use this one reducer. It is deterministic. It orders cases by meaning (case/features/cost.h), not
// by bytes. It works in five steps; rows beyond 4,096 take seconds each time, so they are shortened before
// the first step.
//   1. Toggles: each feature of the found case is turned off by itself. The failure needs those that cannot be
//      turned off.
//   2. Small canonical cases have only those features. They are enumerated from the smallest up. Most bugs
//      have one of them as their minimum, so every seed ends there.
//   3. Passes run until none helps. They drop spans, lower numbers (to 0, to tile borders, by halves; two
//      together; with a fixed ratio), and simplify patterns, layouts, fills and seeds. Then the same visible
//      keys are encoded differently, and if the new case shows the same error, it is reduced as well.
//   4. Canonical cases that depend only on the kernel: the first that fails is taken and reduced as in step 3,
//      until none fails.
//   5. Each part of the result is varied, to say which parts do not matter.
//
// A candidate is taken only if it is strictly simpler than the best so far and fails with the same reduction
// key. The bytes behind a tensor should not decide the key. So the found case first gets the usual poison, and
// tensors away from a page's end, then a clean workspace, then an LSE. Each change stays if the case still
// fails, and the key is that of the last form that failed. An infinity or a NaN may become a wrong number with
// plain values and layouts. Then both cases are reduced, and the simpler result is kept.
//
//   Reduction r = reduce(c, v, key, evaluate, key_of, {.seconds = 30});
//   puts(describe(r.minimal).c_str());
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "properties/case/case.h"
#include "properties/judge/verdict.h"
#include "properties/reduce/need.h"

namespace attnfuzz {

// How the search reaches a new case: by a pass, which changes a part of the best case, or by a jump to a
// case that is built without it (steps 2 and 4).
enum class Step { kPass, kJump };

struct ReduceOptions {
  double seconds = 30;              // wall clock; when it ends, the best case so far is returned
  std::function<bool()> stop = {};  // asked regularly; true ends the search like the clock
  int confirmations = 1;            // a candidate must fail this many times ...
  int attempts = 1;                 // ... in at most this many runs; raise it for a flaky failure
  // Called with each better case, for example to write it to disk.
  std::function<void(const Case& best, const Verdict& verdict)> on_better = {};
  // For a crash or a hang: a failure elsewhere in the kernel's code counts as another failure. Used by
  // reduce_failure(), which makes the key.
  bool keep_site = false;
  // For a kernel with several bugs: true if the failure that `to` would show is still the same bug. Unset: only
  // the key decides.
  std::function<bool(const Case& best, const Verdict& verdict, const Case& to, Step step)> may_take = {};
  // Changes a candidate so that it meets the caller's limits; reduce_failure() adds the kernel's declared
  // domain. Unset: there are no limits.
  std::function<void(Case& c)> fit = {};
  // attn_kernel.features; reduce_failure() sets them. Canonical cases that ask for other features are not tried.
  uint64_t features = ~uint64_t{0};
};

struct Reduction {
  Case minimal;
  Verdict verdict;
  int64_t evaluations = 0;
  // The evaluations until `minimal` was found. The others looked for a simpler case or varied it.
  int64_t reached = 0;
  bool complete = false;                 // false: the clock ran out first
  std::vector<Need> needs;               // what the failure needs
  std::vector<std::string> indifferent;  // "dtype", "batch", "values of v"
};

// `evaluate` judges a candidate, which is taken only if key_of(its verdict) is `key`. Illegal cases are never
// evaluated. The tile borders to try come from verdict.plan.
using Evaluate = std::function<Verdict(const Case&)>;
Reduction reduce(const Case& failing, const Verdict& verdict, const std::string& key, const Evaluate& evaluate,
                 const std::function<std::string(const Verdict&)>& key_of, const ReduceOptions& options);

}  // namespace attnfuzz
