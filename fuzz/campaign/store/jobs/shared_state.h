// The shared memory of a campaign's processes. The supervisor creates it before it starts any, and it needs
// no repair after a kill.
//
// It holds only data that can be rebuilt from the folder (archive.h): which situations and edges have been
// seen, and how many crashes wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "properties/judge/situations.h"

namespace attnfuzz {

inline constexpr int kMostJobs = 256, kMostTargets = 128, kMostGroups = 64, kKinds = kKindCount;
inline constexpr uint32_t kMostSituations = kSituations, kMostEdges = 1 << 18;

struct JobSlot {
  std::atomic<uint64_t> cases = 0;      // cases of its slices so far in this session
  std::atomic<uint64_t> sequences = 0;  // sequences of calls, likewise
  std::atomic<uint64_t> restarts = 0;   // unplanned restarts over the shard's life
  std::atomic<bool> waits = false;      // it waits for room on the disk
  char message[512] = {};               // why it ended, if badly
};

// Everything seen of one kernel on one back end.
struct Group {
  std::atomic<uint8_t> situations[kMostSituations] = {};
  std::atomic<uint8_t> edges[kMostEdges] = {};
  std::atomic<uint32_t> known_situations = 0, known_edges = 0, entries = 0;
};

struct SharedState {
  std::atomic<bool> stop = false;    // tells explorers to stop
  std::atomic<bool> finish = false;  // tells everyone to stop after the current case or step
  JobSlot slots[kMostJobs];
  Group groups[kMostGroups];
  std::atomic<int32_t> waiting[kMostTargets][2 * kKinds] = {};  // crashes not yet reduced, by waiting_kind()
};

// The place of a crash's kind in SharedState::waiting. Sequences of calls have places of their own, so that
// neither keeps the other from being filed. Nothing if there is no such kind.
std::optional<int> waiting_kind(std::string_view kind, bool of_sequences);

using SharedStatePtr = std::unique_ptr<SharedState, void (*)(SharedState*)>;
SharedStatePtr make_shared_state();  // throws std::system_error

// Marks the cell as seen. True if that is new.
inline bool mark(std::atomic<uint8_t>& cell) { return cell.exchange(1) == 0; }

// Calls `write`, which writes to the folder. If the disk is full, nothing is written, and it tries again
// about once a second. It gives up with the error once `give_up` returns true. Other errors pass through.
void persist(std::atomic<bool>& waits, const std::function<bool()>& give_up,
             const std::function<void()>& write);

// True if a write failed because the disk is full (ENOSPC, EDQUOT).
bool is_disk_full(const std::exception& error);

}  // namespace attnfuzz
