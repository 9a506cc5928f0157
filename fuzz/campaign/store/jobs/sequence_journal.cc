#include "fuzz/campaign/store/jobs/sequence_journal.h"

#include <optional>

#include "base/json.h"

namespace attnfuzz {
namespace {

std::string sequences_file(const std::string& shard_dir) { return shard_dir + "/sequences.jsonl"; }

// Nothing for a line that is cut short.
std::optional<JournaledSequence> parse_sequence(const std::string& text) {
  const auto j = json_line(text);
  if (!j || !j->is_object()) return std::nullopt;
  try {
    return JournaledSequence{j->at("target"), j->at("number"), j->at("attempts"), j->at("calls")};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

SequenceJournal::SequenceJournal(const std::string& shard_dir) : file_(sequences_file(shard_dir)) {}

void SequenceJournal::begin(const JournaledSequence& entry, bool new_process) {
  if (new_process) file_.clear();
  file_.append(json_text({{"target", entry.target},
                          {"number", entry.number},
                          {"attempts", entry.attempts},
                          {"calls", entry.calls}}));
}

void SequenceJournal::rest() { file_.append(R"({"rest":true})"); }

std::vector<JournaledSequence> sequences_in_flight(const std::string& shard_dir) {
  std::vector<JournaledSequence> entries;
  const std::vector<std::string> lines = read_lines(sequences_file(shard_dir));
  bool rests = true;
  for (const std::string& line : lines) {
    auto entry = parse_sequence(line);
    rests = !entry;
    if (!entry) continue;
    // The same one once more, in another attempt.
    if (!entries.empty() && entries.back().target == entry->target && entries.back().number == entry->number)
      entries.pop_back();
    entries.push_back(std::move(*entry));
  }
  if (rests) entries.clear();
  return entries;
}

}  // namespace attnfuzz
