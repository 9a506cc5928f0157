// Small canonical cases: where the reducer looks before it walks.
//
// Lowering a found case step by step ends in a minimum that depends on where it
// began. Most attention bugs, however, fail on some tiny case whose only
// features are those the bug needs. These are enumerated from the simplest up;
// the first that fails is the same whatever case the bug was found by.
//
// All have one call, one batch entry, one head, dims of 1, the default layout
// and environment, lengths at tile borders, and fills without a seed where such fail;
// then they get features, and nothing but features, that the found case has.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "properties/case/switches.h"
#include "properties/reduce/passes.h"

namespace attnfuzz {

// Cases collected to be tried, the simplest first.
class Candidates {
 public:
  // Those that cost as much as `below` or more are left out.
  explicit Candidates(std::optional<std::vector<int64_t>> below = {}) : below_(std::move(below)) {}

  // Tidied; illegal ones are left out.
  void add(Case c);
  void add(const Case& c, std::span<const Data> all);
  // The simplest `limit` of them, each once.
  std::vector<Case> take(size_t limit);

 private:
  std::optional<std::vector<int64_t>> below_;
  std::vector<std::pair<std::vector<int64_t>, Case>> all_;  // by cost, once sorted
};

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
