// Merges campaigns that ran side by side, for instance the tasks of a job array.
//
// The merged folder has the layout of any campaign's (campaign/store/archive.h): the shards of all tasks
// under new numbers, the union of their corpora, findings with equal keys counted together, and every
// session and seeded bug. `attnfuzz report` shows it, and `attnfuzz campaign` may continue from it.
//
//   MergeSummary s = merge_campaigns({"tasks/0", "tasks/1"}, "merged", {"attnfuzz", "merge", ...});
//
// The folder is built beside its destination and moved there as a whole. It replaces the result of an
// earlier merge, but nothing else. A task's folder that cannot be read, or was never begun, is named in
// `left_out`, and the others are merged. Files that are not copied are named there, too: links, files that
// are not regular, and files that are too large.
#pragma once

#include <string>
#include <vector>

namespace attnfuzz {

struct MergeSummary {
  size_t merged = 0, shards = 0, corpus = 0, findings = 0,
         same = 0;                    // same: findings that several tasks had
  std::vector<std::string> left_out;  // "tasks/3: there is no campaign in it"
};

// Throws std::runtime_error, with what to do, if `to` must not be replaced, or if no folder could be
// merged; std::system_error if it cannot be written.
MergeSummary merge_campaigns(const std::vector<std::string>& from, const std::string& to,
                             const std::vector<std::string>& command);

}  // namespace attnfuzz
