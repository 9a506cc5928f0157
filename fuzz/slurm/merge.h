// Campaigns that ran side by side as one: what the tasks of a job array found.
//
// The merged folder has the layout of any campaign's (campaign/store/archive.h): shards of
// all tasks under new numbers, the union of their corpora, findings that are the same
// by key counted together, every session and canary. So `attnfuzz report` shows it
// and `attnfuzz campaign` may go on from it.
//
//   MergeSummary s = merge_campaigns({"tasks/0", "tasks/1"}, "merged", {"attnfuzz", "merge", ...});
//
// The folder is built beside the place it goes to, and put there whole. One that an
// earlier merge left there is replaced; anything else is not. A task's folder that
// cannot be read, or was never begun, is named in `left_out`; the others are merged. So
// is a file of a folder that is not copied: a link, no regular file, or too large a one.
#pragma once

#include <string>
#include <vector>

namespace attnfuzz {

struct MergeSummary {
  size_t merged = 0, shards = 0, corpus = 0, findings = 0,
         same = 0;                    // same: findings that another task had too
  std::vector<std::string> left_out;  // "tasks/3: there is no campaign in it"
};

// Throws std::runtime_error with what to do if `to` is not to be replaced, or no folder
// could be merged; std::system_error where it cannot be written.
MergeSummary merge_campaigns(const std::vector<std::string>& from, const std::string& to,
                             const std::vector<std::string>& command);

}  // namespace attnfuzz
