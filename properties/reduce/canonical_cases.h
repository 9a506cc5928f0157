// Canonical cases that do not depend on the case by which a bug was found.
//
// A reduced case may still show its origin. A window may hide rows in one minimum and a mask in another,
// because no step turns one into the other without losing the failure on the way. In the end the reducer
// therefore tries a list of cases that is the same for every case of a kernel. The list depends only on the
// kernel's tiles and head dimensions:
//   - lengths beside tile borders, each way to hide keys in its simplest form, and the other features that can
//     replace each other (splits, groups, batch);
//   - no features, but many fills and head dimensions.
// The first case that fails with the same key replaces the minimum.
//
//   for (const Case& c : canonical_cases(base, complexity(best), 1500)) ...
#pragma once

#include <string>
#include <vector>

#include "properties/reduce/search.h"

namespace attnfuzz {

// The kernel's facts from which canonical cases are built.
struct CandidateBase {
  std::string build_kind;
  uint64_t features = 0;  // Problem::features: the operation stays the found case's
  uint64_t known = ~uint64_t{0};  // attn_kernel.features: a case that asks for more is left out
  int32_t variant = 1;
  Borders tiles;
  int64_t least_dim = 1;  // smallest head dimension that the kernel takes
};

// Finds the kernel's least head dimension and its tiles there. False if it refuses every plain case; then
// there are no canonical cases.
bool find_base(Search& s, CandidateBase& base);

// At most `limit` cases simpler than `below`, the simplest first.
std::vector<Case> canonical_cases(const CandidateBase& base, const std::vector<int64_t>& below, size_t limit);

// Cases in which one feature of the best case is exchanged for the simplest form of another, at its lengths
// and at the smallest ones. They cover bugs that need two features, which no case of the list has. At most
// `limit`, the simplest first.
std::vector<Case> exchanges(const CandidateBase& base, const Case& best, size_t limit);

}  // namespace attnfuzz
