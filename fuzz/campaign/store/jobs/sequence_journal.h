// A shard's journal of sequences of calls: those that have run in one process of the kernel's library, and the
// one in flight. The state that the earlier ones left in the library may be needed for a failure, so all of
// them are kept until the library gets a new process.
//
//   SequenceJournal journal(shard_dir(dir, 3));
//   journal.begin({"cache.cpu.plain", 17, 1, text}, true);   // then run it; true: in a new process
//   journal.rest();                                          // nothing is in flight any more
//
// The file is sequences.jsonl. As in journal.h, it survives the kill of any process. While cases run, this
// journal is at rest, and the other one while sequences of calls run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/campaign/store/lines.h"

namespace attnfuzz {

struct JournaledSequence {
  std::string target;
  uint64_t number = 0;     // in the stream of the target and the shard
  int attempts = 1;        // as in Journaled
  std::string calls = {};  // the file of a sequence of calls (properties/sequences/session/codec.h)
};

class SequenceJournal {
 public:
  // Keeps what the file holds until the first sequence in a new process.
  explicit SequenceJournal(const std::string& shard_dir);
  void begin(const JournaledSequence& entry, bool new_process);
  void rest();

 private:
  LineFile file_;
};

// The sequences of the process that ran when the shard's process ended, the one in flight last. Empty if none
// was in flight.
std::vector<JournaledSequence> sequences_in_flight(const std::string& shard_dir);

}  // namespace attnfuzz
