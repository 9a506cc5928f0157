// Prunes a campaign's archive to a few cases that show everything it has shown, by set cover over the
// situations of every kernel and the coverage where known.
//
//   for (const Kept& kept : prune(dir, targets, 200).kept)
//     write_file(to + "/" + kept.name + ".case.json", kept.text);
//
// Every entry is judged again on every target by the property `reference`. The greedy cover takes the case
// that adds most for its cost, so that a replay stays short. Entries that fail or cannot be judged on a target,
// that every target refuses, or that take long are left out. A replay of the others passes on each target that
// takes the case; on a target that refuses it, the replay does not pass.
#pragma once

#include <string>
#include <vector>

#include "fuzz/campaign/store/campaign_options.h"

namespace attnfuzz {

struct Kept {
  std::string name;  // "causal-gqa-window-3fb2c1": as a person would call it
  std::string text;  // the text of its file, readable by a person
  Case c;
  size_t shows = 0;  // situations and edges that no earlier case showed
  double seconds = 0;
};

struct PruneResult {
  std::vector<Kept> kept;
  size_t entries = 0, failing = 0, unjudged = 0, refused = 0, slow = 0, shown = 0, kept_shown = 0;
};

// Throws std::runtime_error if a target cannot be opened or there is no archive.
PruneResult prune(const std::string& dir, const std::vector<CampaignTarget>& targets, size_t most);

}  // namespace attnfuzz
