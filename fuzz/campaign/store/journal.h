// The journal of a shard: the case in flight has a name before it is launched.
//
//   Journal journal(shard_dir(dir, 3));
//   journal.begin({"fa1.cpu.plain", "reference", c, 17});   // then launch it
//   journal.rest();                                         // nothing is in flight any more
//
// Two files of numbered lines take turns, each kept until it holds kTrace cases:
// together they always have the last kTrace. A line costs one write() and survives the
// kill of any process; what survives a loss of power is up to the system.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/campaign/store/lines.h"
#include "properties/case/case.h"

namespace attnfuzz {

struct Journaled {
  std::string target, property;
  Case c;
  uint64_t index = 0;
  int attempts = 1;  // how often it has been launched: more than once after its job ended
};

class Journal {
 public:
  static constexpr int kTrace = 64;
  explicit Journal(const std::string& shard_dir);
  void begin(const Journaled& entry);
  void rest();

 private:
  LineFile files_[2];
  int current_ = 0, cases_ = 0;
  uint64_t number_ = 0;
};

// What the shard was running when its process ended; nothing if it rested.
std::optional<Journaled> in_flight(const std::string& shard_dir);

// The supervisor calls this where the shard's process died, or had to be ended, while the supervisor lived. It
// counts one death against the case in flight, in the file deaths.json.
void note_death(const std::string& shard_dir);
// The number of deaths in a row that are counted against a case; 0: none.
int deaths_of(const std::string& shard_dir, const Journaled& entry);

// The last cases, oldest first, the one in flight last: at most Journal::kTrace.
std::vector<Journaled> trace_of(const std::string& shard_dir);
// The same from the text of a crash's trace.jsonl, and that text.
std::vector<Journaled> parse_trace(const std::string& text);
std::string text_of(const std::vector<Journaled>& trace);

}  // namespace attnfuzz
