// The ladder: canonical cases that owe nothing to the case a bug was found by.
//
// What has been reduced may still tell where it came from: rows can be hidden
// by a window in one minimum and by a mask in another, because no step turns
// one into the other without losing the failure on the way. So at the end the
// reducer climbs one ladder that is the same for every case of a kernel. It
// knows only where the kernel's tiles end and which head dims it takes:
//   - lengths beside tile borders, each way to hide keys in its simplest form,
//     and the other features that stand for each other (splits, groups, batch);
//   - no features, but many regimes of data and head dims.
// The first rung that fails with the same key replaces the minimum.
//
//   for (const Case& rung : ladder(ground, complexity(best), 1500)) ...
#pragma once

#include <string>
#include <vector>

#include "properties/reduce/search.h"

namespace attnfuzz {

// What the ladder stands on.
struct Ground {
  std::string lane;
  int32_t variant = 1;
  Borders tiles;
  int64_t least_dim = 1;  // smallest head dim that the kernel takes
};

// Asks the kernel for its least head dim and its tiles there. False if it
// refuses every plain case: then there is nothing to stand on.
bool find_ground(Search& s, Ground& ground);

// At most `limit` cases simpler than `below`, the simplest first.
std::vector<Case> ladder(const Ground& ground, const std::vector<int64_t>& below, size_t limit);

// One feature of the best case exchanged for the simplest form of another, at
// its lengths and at the smallest ones: where two features are needed, no rung
// of the ladder has both. As above: at most `limit`, the simplest first.
std::vector<Case> exchanges(const Ground& ground, const Case& best, size_t limit);

}  // namespace attnfuzz
