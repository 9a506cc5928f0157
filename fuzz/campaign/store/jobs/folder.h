// Begins a session in a campaign's folder: in a new folder, or the next one in an old folder.
#pragma once

#include <string>
#include <vector>

#include "fuzz/campaign/store/archive.h"
#include "fuzz/campaign/store/campaign_options.h"
#include "fuzz/campaign/store/jobs/shared_state.h"

namespace attnfuzz {

// Locks the folder for this process and writes its pid and host into the lock. Throws std::runtime_error if
// another process holds it.
class FolderLock {
 public:
  explicit FolderLock(const std::string& dir);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

// The current or last holder of a folder's lock, read from the lock file. Older campaigns wrote nothing to it.
struct FolderHolder {
  bool works = false;  // the lock is held: a supervisor or one of its jobs lives
  std::string pid, host;
};
FolderHolder holder_of(const std::string& dir);

// Makes or reads the folder, and adds a new session. A session that was broken off is continued for at most
// its remaining time. Throws std::runtime_error if the options contradict the folder, for instance by
// another seed.
CampaignHeader begin_session(const CampaignOptions& options, const std::vector<CampaignTarget>& targets);

// Loads the situations and edges already seen, and the number of waiting crashes, from the archive
// into shared memory. `old`: the header before this session; its builds tell which edges keep their
// meaning.
void load_shared_state(const std::string& dir, const std::vector<CampaignTarget>& targets,
                       const std::vector<int>& group_of, const std::optional<CampaignHeader>& old,
                       SharedState& shared);

// Targets of one kernel and back end share what they have seen.
std::vector<int> groups_of(const std::vector<CampaignTarget>& targets);

// The version of this program's table of situations.
std::string situation_table();

}  // namespace attnfuzz
