// A shard's journal: the case in flight is recorded before it is launched.
//
//   Journal journal(shard_dir(dir, 3));
//   journal.begin({"fa1.cpu.plain", "reference", c, 17});   // then launch it
//   journal.rest();                                         // nothing is in flight any more
//
// Two files of numbered lines alternate. A file is full at kTrace cases, or at the number of cases that may be
// in flight if that is more. So both files together always hold the most recent cases. A batch costs one
// write() and survives the kill of any process. After a loss of power it may be lost, because it is not
// flushed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fuzz/campaign/store/jobs/sequence_journal.h"
#include "fuzz/campaign/store/lines.h"
#include "properties/case/case.h"

namespace attnfuzz {

struct Journaled {
  std::string target, property;
  Case c;
  uint64_t index = 0;
  int attempts = 1;  // number of launches: more than one if its job ended
};

class Journal {
 public:
  static constexpr int kTrace = 64;
  explicit Journal(const std::string& shard_dir, size_t most_in_flight = kTrace);
  void begin(const Journaled& entry) { begin(std::span(&entry, 1)); }
  // Records cases that are launched together. `still`: the number of earlier cases that are still in
  // flight; these are the most recent ones. `batch` and `still` together have at most
  // `most_in_flight` cases.
  void begin(std::span<const Journaled> batch, size_t still = 0);
  void rest();

 private:
  LineFile files_[2];
  const size_t most_in_file_;
  int current_ = 0;
  size_t cases_ = 0;  // in the current file
  uint64_t number_ = 0;
};

// The case that was running when the shard's process ended; nothing if none was.
std::optional<Journaled> in_flight(const std::string& shard_dir);
// All cases that were in flight then, in their order.
std::vector<Journaled> batch_in_flight(const std::string& shard_dir);

// The target of the case or of the sequence of calls that was in flight.
std::optional<std::string> target_in_flight(const std::string& shard_dir);

// The supervisor calls this if a shard's process died or had to be ended. It counts one exit against the
// case or the sequence of calls in flight, in the file deaths.json. Cases of batches do not count: the
// next process runs each of them alone.
void note_shard_exit(const std::string& shard_dir);
// The number of consecutive exits counted against a case or a sequence of calls.
int shard_exits(const std::string& shard_dir, const Journaled& entry);
int shard_exits(const std::string& shard_dir, const JournaledSequence& entry);

// The last cases, oldest first, at most Journal::kTrace. If `until` is among them, it is the last one;
// otherwise the case in flight is.
std::vector<Journaled> trace_of(const std::string& shard_dir, const Journaled* until = nullptr);
// Converts the text of a crash's trace.jsonl.
std::vector<Journaled> parse_trace(const std::string& text);
std::string text_of(const std::vector<Journaled>& trace);

}  // namespace attnfuzz
