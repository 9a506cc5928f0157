// Small canonical cases, which the reducer tries before it changes the found case.
//
// If a found case is lowered step by step, the minimum depends on where it started. Most attention bugs,
// however, fail on some tiny case that has only the features which the bug needs. These cases are
// enumerated from the simplest up, so the first one that fails is the same whatever case found the bug.
//
// All have one call, one batch entry, one head, head dimensions of 1, the default layout and environment,
// lengths at tile borders, and, where these fail, fills without a seed. They get features of the found case
// and no others.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "properties/case/features/shrink_toggles.h"
#include "properties/reduce/passes.h"

namespace attnfuzz {

// Collects cases to try, the simplest first.
class Candidates {
 public:
  // Leaves out cases that cost as much as `below` or more.
  explicit Candidates(std::optional<std::vector<int64_t>> below = {}) : below_(std::move(below)) {}

  // Adds a tidied case; an illegal one is left out.
  void add(Case c);
  void add(const Case& c, std::span<const Data> all);
  // The simplest `limit` cases, each once.
  std::vector<Case> take(size_t limit);

 private:
  std::optional<std::vector<int64_t>> below_;
  std::vector<std::pair<std::vector<int64_t>, Case>> all_;  // sorted by cost on demand
};

// The parts of the found case that a failure needs.
struct Leftovers {
  std::vector<const ShrinkToggle*> needed;  // without it, the case passes
  std::vector<const ShrinkToggle*> forced;  // without it, the kernel refuses the case
  std::vector<Data> data;                   // fills that fail; small cases get them
};

// Turns off each feature of the best case by itself, and keeps the simpler case if it still fails.
Leftovers strip(Search& s);

// At most `limit` cases, by complexity. `found` is the stripped case.
std::vector<Case> small_cases(const Case& found, const Leftovers& left, const Borders& borders, size_t limit);

}  // namespace attnfuzz
