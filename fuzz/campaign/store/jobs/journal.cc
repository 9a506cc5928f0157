#include "fuzz/campaign/store/jobs/journal.h"

#include <algorithm>

#include "base/files.h"
#include "base/json.h"
#include "properties/case/codec/codec.h"

namespace attnfuzz {
namespace {

std::string file_of(const std::string& shard_dir, int n) {
  return shard_dir + "/trace-" + std::to_string(n) + ".jsonl";
}

std::string line_of(const Journaled& entry, uint64_t number, uint64_t first) {
  std::string text = encode(entry.c);
  std::erase(text, '\n');  // a newline inside a string is escaped, so this changes white space only
  return R"({"n":)" + std::to_string(number) + R"(,"first":)" + std::to_string(first) + R"(,"target":)" +
         json_text(Json(entry.target)) + R"(,"property":)" + json_text(Json(entry.property)) + R"(,"index":)" +
         std::to_string(entry.index) + R"(,"attempts":)" + std::to_string(entry.attempts) + R"(,"case":)" +
         text + "}";
}

std::string shard_exits_file(const std::string& shard_dir) { return shard_dir + "/deaths.json"; }

Json name_of_entry(const Journaled& entry) {
  return {{"target", entry.target}, {"index", entry.index}, {"property", entry.property}};
}

Json name_of_sequence(const JournaledSequence& entry) {
  return {{"target", entry.target}, {"sequence", entry.number}};
}

int exits_of(const std::string& shard_dir, const Json& name) {
  const auto text = read_file(shard_exits_file(shard_dir), kInFolder);
  const auto* found = std::get_if<std::string>(&text);
  const auto known = found ? json_line(*found) : std::nullopt;
  if (!known || !known->is_object() || known->value("of", Json()) != name) return 0;
  return known->value("deaths", 0);
}

// A line of the journal: a case, or a mark that nothing is in flight.
struct Line {
  uint64_t number = 0;
  uint64_t first = 0;  // the earliest case that was still in flight when this one was launched
  std::optional<Journaled> entry;
};

std::optional<Line> parse(const std::string& text) {
  const auto parsed = json_line(text);
  if (!parsed || !parsed->is_object()) return std::nullopt;
  const auto& j = *parsed;
  try {
    Line line;
    j.at("n").get_to(line.number);
    if (!j.contains("case")) return line;
    line.first = j.value("first", line.number);
    auto decoded = decode(json_text(j["case"]));
    if (!std::holds_alternative<Case>(decoded)) return std::nullopt;
    line.entry =
        Journaled{j.at("target"), j.at("property"), std::get<Case>(decoded), j.at("index"), j.at("attempts")};
    return line;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

// The lines of both files, in the order of writing.
std::vector<Line> lines_of(const std::string& shard_dir) {
  std::vector<Line> lines;
  for (int n : {0, 1}) {
    for (const std::string& text : read_lines(file_of(shard_dir, n))) {
      if (auto line = parse(text)) lines.push_back(std::move(*line));
    }
  }
  std::ranges::sort(lines, {}, &Line::number);
  return lines;
}

}  // namespace

// The caller has already read which case was in flight when a process was killed, so the files may be cleared.
Journal::Journal(const std::string& shard_dir, size_t most_in_flight)
    : files_{LineFile(file_of(shard_dir, 0)), LineFile(file_of(shard_dir, 1))},
      most_in_file_(std::max<size_t>(kTrace, most_in_flight)) {
  files_[0].clear();
  files_[1].clear();
}

void Journal::begin(std::span<const Journaled> batch, size_t still) {
  const uint64_t first = number_ - still;
  while (!batch.empty()) {
    if (cases_ == most_in_file_) {
      current_ = 1 - current_;
      files_[current_].clear();
      cases_ = 0;
    }
    const auto together = batch.first(std::min(batch.size(), most_in_file_ - cases_));
    std::string lines;
    for (uint64_t number = number_; const Journaled& entry : together)
      lines += (lines.empty() ? "" : "\n") + line_of(entry, number++, first);
    files_[current_].append(lines);
    number_ += together.size();
    cases_ += together.size();
    batch = batch.subspan(together.size());
  }
}

void Journal::rest() { files_[current_].append(R"({"n":)" + std::to_string(number_++) + R"(,"rest":true})"); }

std::optional<Journaled> in_flight(const std::string& shard_dir) {
  std::vector<Line> lines = lines_of(shard_dir);
  return lines.empty() ? std::nullopt : std::move(lines.back().entry);
}

std::vector<Journaled> batch_in_flight(const std::string& shard_dir) {
  std::vector<Line> lines = lines_of(shard_dir);
  std::vector<Journaled> batch;
  if (lines.empty() || !lines.back().entry) return batch;
  const uint64_t first = lines.back().first;
  for (Line& line : lines) {
    if (line.entry && line.number >= first) batch.push_back(std::move(*line.entry));
  }
  return batch;
}

std::optional<std::string> target_in_flight(const std::string& shard_dir) {
  if (const auto entry = in_flight(shard_dir)) return entry->target;
  const std::vector<JournaledSequence> sequences = sequences_in_flight(shard_dir);
  if (sequences.empty()) return std::nullopt;
  return sequences.back().target;
}

int shard_exits(const std::string& shard_dir, const Journaled& entry) {
  return exits_of(shard_dir, name_of_entry(entry));
}

int shard_exits(const std::string& shard_dir, const JournaledSequence& entry) {
  return exits_of(shard_dir, name_of_sequence(entry));
}

void note_shard_exit(const std::string& shard_dir) {
  const std::vector<Journaled> batch = batch_in_flight(shard_dir);
  if (batch.size() > 1) return;  // the next process runs each case of a batch alone
  const std::vector<JournaledSequence> sequences = sequences_in_flight(shard_dir);
  if (batch.empty() && sequences.empty()) return;
  const Json name = batch.empty() ? name_of_sequence(sequences.back()) : name_of_entry(batch[0]);
  const Json counted = {{"of", name}, {"deaths", exits_of(shard_dir, name) + 1}};
  write_file(shard_exits_file(shard_dir), json_text(counted) + "\n");
}

std::vector<Journaled> trace_of(const std::string& shard_dir, const Journaled* until) {
  std::vector<Journaled> trace;
  for (Line& line : lines_of(shard_dir)) {
    if (line.entry) trace.push_back(std::move(*line.entry));
  }
  if (until != nullptr) {
    const auto own = std::ranges::find(trace, name_of_entry(*until), name_of_entry);
    if (own != trace.end()) trace.erase(own + 1, trace.end());
  }
  if (trace.size() > Journal::kTrace) trace.erase(trace.begin(), trace.end() - Journal::kTrace);
  return trace;
}

std::vector<Journaled> parse_trace(const std::string& text) {
  std::vector<Journaled> trace;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    auto line = parse(text.substr(begin, end - begin));
    if (line && line->entry) trace.push_back(std::move(*line->entry));
  }
  return trace;
}

std::string text_of(const std::vector<Journaled>& trace) {
  std::string text;
  uint64_t number = 0;
  for (const Journaled& entry : trace) text += line_of(entry, number, number) + "\n", ++number;
  return text;
}

}  // namespace attnfuzz
