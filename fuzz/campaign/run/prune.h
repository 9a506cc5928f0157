// A campaign's archive pruned to a few cases that show all that it has shown: by
// set cover, over the signals of every kernel and the coverage where it is known.
//
//   for (const Kept& kept : prune(dir, targets, 200).kept)
//     write_file(to + "/" + kept.name + ".case.json", kept.text);
//
// Every entry is judged anew on every target, by the property `reference`. The
// greedy cover takes what adds most for its cost, so that a replay stays short;
// entries that fail, or take long, are left out.
#pragma once

#include <string>
#include <vector>

#include "fuzz/campaign/store/campaign_options.h"

namespace attnfuzz {

struct Kept {
  std::string name;  // "causal-gqa-window-3fb2c1": what a person would call it
  std::string text;  // of its file, to be read by a person
  Case c;
  size_t shows = 0;  // signals and edges that no case before it showed
  double seconds = 0;
};

struct PruneResult {
  std::vector<Kept> kept;
  size_t entries = 0, failing = 0, slow = 0, shown = 0, kept_shown = 0;
};

// Throws std::runtime_error if a target cannot be opened or there is no archive.
PruneResult prune(const std::string& dir, const std::vector<CampaignTarget>& targets, size_t most);

}  // namespace attnfuzz
