// Beginning a session in a campaign's folder: a new one, or the next of an old one.
#pragma once

#include <string>
#include <vector>

#include "fuzz/campaign/store/archive.h"
#include "fuzz/campaign/store/campaign_options.h"
#include "fuzz/campaign/store/shared_state.h"

namespace attnfuzz {

// Holds the folder for this process, and writes its pid and host into the lock; throws std::runtime_error if
// another does.
class FolderLock {
 public:
  explicit FolderLock(const std::string& dir);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

// Whoever holds a folder's lock or held it last, as the lock file says; an older campaign wrote nothing there.
struct FolderHolder {
  bool works = false;  // the lock is held: a supervisor or a job of it lives
  std::string pid, host;
};
FolderHolder holder_of(const std::string& dir);

// Makes the folder, or reads it, and enters a new session. A session that was broken
// off is gone on with: what it was still to last is what this one lasts, at most.
// Throws std::runtime_error where the options contradict the folder (another seed).
CampaignHeader begin_session(const CampaignOptions& options, const std::vector<CampaignTarget>& targets);

// What the archive says has been seen and what waits, into shared memory. `old`: the
// header before this session, whose builds tell which edges still mean the same.
void load_shared_state(const std::string& dir, const std::vector<CampaignTarget>& targets,
                       const std::vector<int>& group_of, const std::optional<CampaignHeader>& old,
                       SharedState& shared);

// Targets of one kernel and back end share what they have seen.
std::vector<int> groups_of(const std::vector<CampaignTarget>& targets);

// Which table of signals this program has.
std::string signal_table();

}  // namespace attnfuzz
