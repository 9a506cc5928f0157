// The reducer: the smallest case that still shows the same failure.
//
// One for every front end. It is deterministic, orders cases by meaning rather
// than bytes, and works in five steps (rows beyond 4,096, which take seconds each
// time, are made shorter before the first):
//   1. switches: each feature of the found case is turned off where it stands;
//      what cannot be turned off is what the failure is about;
//   2. small canonical cases, made of those features alone and enumerated from
//      the smallest up: most bugs have one of these as their minimum, and then
//      every seed ends there;
//   3. passes until none helps: drop spans, lower numbers (to 0, to tile
//      borders, by halves; two together; a ratio kept), simplify patterns,
//      layouts, fills and seeds; then say the same visible keys in other words
//      and see whether that case, showing the same error, can be made smaller;
//   4. the ladder: canonical cases that depend on the kernel alone; the first
//      that fails is taken and made smaller as in 3, until none does;
//   5. vary each part of what is left to say which parts do not matter.
// A candidate counts only if the same reduction key comes back, and is taken
// only if it is strictly simpler than the best so far. The key is the found
// case's with the usual poison, away from the end of a page, if it fails there
// at all: what a read beyond a tensor meets is no part of the bug. Where the end
// is an infinity or a NaN that shows as a wrong number too, with plain values and
// layouts, that is followed as well, and the simpler end kept.
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

// How a search comes from the best case to another: by a pass, that changes a part
// of it, or by a leap to a case that owes nothing to it (2 and 4 above).
enum class Step { kPass, kLeap };

struct ReduceOptions {
  double seconds = 30;              // wall clock; the best so far is returned
  std::function<bool()> stop = {};  // asked now and then: as if the clock had run out
  int confirmations = 1;            // a candidate must fail this many times ...
  int attempts = 1;                 // ... of this many at most: raise it for a flaky failure
  std::function<void(const Case& best, const Verdict& verdict)> on_better = {};  // e.g. writes it to disk
  // Of a crash or a hang: what dies or is stuck elsewhere in the kernel's code is another
  // failure. For reduce_failure(), which makes the key.
  bool keep_site = false;
  // Of a kernel that may have several bugs: whether what `to` shows, if it fails, will
  // be the same one. None: all that has the key is the same.
  std::function<bool(const Case& best, const Verdict& verdict, const Case& to, Step step)> may_take = {};
  // Moves a candidate into what the caller asks of the kernel; reduce_failure() adds what that one declares.
  // None: it takes anything.
  std::function<void(Case& c)> fit = {};
};

struct Reduction {
  Case minimal;
  Verdict verdict;
  int64_t evaluations = 0;
  // Of them until `minimal` was found; the others looked for a simpler one, or varied it.
  int64_t reached = 0;
  bool complete = false;                 // false: the clock ran out first
  std::vector<Need> needs;               // what the failure hangs on
  std::vector<std::string> indifferent;  // "dtype", "batch", "values of v"
};

// `evaluate` judges a candidate, `key` must come back. Cases that `illegal`
// forbids are never evaluated. Borders worth trying come from verdict.plan.
using Evaluate = std::function<Verdict(const Case&)>;
Reduction reduce(const Case& failing, const Verdict& verdict, const std::string& key, const Evaluate& evaluate,
                 const std::function<std::string(const Verdict&)>& key_of, const ReduceOptions& options);

}  // namespace attnfuzz
