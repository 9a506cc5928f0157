// Small canonical cases: where the reducer looks before it walks.
//
// Lowering a found case step by step ends in a minimum that depends on where it
// began. Most attention bugs, however, fail on some tiny case whose only
// features are those the bug needs. These are enumerated from the simplest up;
// the first that fails is the same whatever case the bug was found by.
//
// All have one call, one batch entry, one head, dims of 1, the default layout
// and environment, lengths at tile borders, and fills without a seed; then
// they get features, and nothing but features, that the found case has.
#pragma once

#include <vector>

#include "properties/case/switches.h"
#include "properties/reduce/passes.h"

namespace attnfuzz {

// What of the found case a failure hangs on.
struct Leftovers {
  std::vector<const Switch*> needed;  // without it, the case passes
  std::vector<const Switch*> forced;  // without it, the kernel refuses the case
  std::vector<Data> data;             // regimes that fail: what small cases are filled with
};

// Turns each feature off where it stands; keeps what gets simpler.
Leftovers strip(Search& s);

// At most `limit` cases, by complexity. `found` is the stripped case.
std::vector<Case> small_cases(const Case& found, const Leftovers& left, const Borders& borders, size_t limit);

}  // namespace attnfuzz
