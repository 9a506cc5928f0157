#include "fuzz/campaign/store/archive.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <system_error>
#include <tuple>

#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"
#include "fuzz/campaign/store/archive_json.h"
#include "fuzz/campaign/store/lines.h"
#include "properties/case/codec/codec.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

// The JSON of a file; nothing if there is no such file.
std::optional<Json> read_json(const std::string& path) {
  std::error_code none;
  if (!fs::exists(fs::symlink_status(path, none))) return std::nullopt;
  auto parsed = parse_json(file_text(path, kInFolder));
  if (auto* error = std::get_if<DecodeError>(&parsed)) {
    throw std::runtime_error(path + ": " + error->message + "; move it away, or restore a copy");
  }
  return std::get<Json>(std::move(parsed));
}

template <class T>
T read_record(const std::string& path, const Json& j) {
  try {
    return j.get<T>();
  } catch (const std::exception& e) {
    throw std::runtime_error(path + " cannot be read: move it away, or restore a copy (" + e.what() + ")");
  }
}

// True if the text is a plain file name: files are read, written and removed under such names.
bool is_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

void check_name(const std::string& path, const char* what, const std::string& name) {
  if (is_file_name(name)) return;
  throw std::runtime_error(path + " names " + what + " '" + printable(name, 60) + "', which is no file's name");
}

void write_json(const std::string& path, const Json& j) { write_file(path, json_text(j, 1) + "\n"); }

template <class T>
std::optional<T> parse_line(const std::string& text) {
  const auto j = json_line(text);
  if (!j) return std::nullopt;
  try {
    return j->get<T>();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

const char* to_string(Repeats repeats) {
  switch (repeats) {
    case Repeats::kAlways:
      return "deterministic";
    case Repeats::kSometimes:
      return "flaky";
    case Repeats::kAfterOthers:
      return "dependent on state";
    case Repeats::kNever:
      return "never again";
  }
  return "";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string file_name_of(const Finding& finding) {
  return finding.name + (is_of_sequences(finding) ? ".calls.json" : ".attn.json");
}

std::string shard_dir(const std::string& dir, int shard) { return dir + "/shards/" + std::to_string(shard); }

std::string corpus_file(const std::string& dir, const std::string& kernel, const std::string& id) {
  return dir + "/corpus/" + kernel + "/" + id + ".case.json";
}

std::optional<CampaignHeader> read_header(const std::string& dir) {
  const std::string path = dir + "/campaign.json";
  const auto j = read_json(path);
  if (!j) return std::nullopt;
  // Checked before anything else is read.
  const auto format = j->is_object() ? j->find("format") : j->end();
  if (!j->is_object() || format == j->end() || !format->is_number_integer() || *format != kCampaignFormat) {
    throw std::runtime_error(path + " is of format " +
                             (j->is_object() && format != j->end() ? brief(*format) : "unknown") +
                             ", this program reads " + std::to_string(kCampaignFormat) +
                             ": use the version that wrote it, or another folder");
  }
  return read_record<CampaignHeader>(path, *j);
}

void write_header(const std::string& dir, const CampaignHeader& header) {
  write_json(dir + "/campaign.json", Json(header));
}

std::vector<int> shards_of(const std::string& dir) {
  std::vector<int> shards;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(dir + "/shards", none)) {
    const std::string name = entry.path().filename().string();
    if (!name.empty() && name.size() < 7 &&
        std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; }))
      shards.push_back(std::stoi(name));
  }
  std::ranges::sort(shards);
  return shards;
}

std::vector<SeriesLine> read_series(const std::string& dir, int shard) {
  std::vector<SeriesLine> lines;
  for (const std::string& text : read_lines(shard_dir(dir, shard) + "/series.jsonl")) {
    if (auto line = parse_series_line(text)) lines.push_back(*line);
  }
  return lines;
}

bool has_stats(const std::string& dir, int shard) { return fs::exists(shard_dir(dir, shard) + "/stats.json"); }

ShardStats read_stats(const std::string& dir, int shard) {
  const std::string path = shard_dir(dir, shard) + "/stats.json";
  const auto j = read_json(path);
  return j ? read_record<ShardStats>(path, *j) : ShardStats{};
}

void write_stats(const std::string& dir, int shard, const ShardStats& stats) {
  write_json(shard_dir(dir, shard) + "/stats.json", Json(stats));
}

std::vector<CorpusEntry> read_corpus(const std::string& dir) {
  std::vector<CorpusEntry> entries;
  std::set<std::pair<std::string, std::string>> known;
  for (int shard : shards_of(dir)) {
    for (const std::string& text : read_lines(shard_dir(dir, shard) + "/corpus.jsonl")) {
      auto entry = parse_corpus_line(text);
      if (entry && known.emplace(entry->kernel, entry->id).second) entries.push_back(std::move(*entry));
    }
  }
  std::ranges::sort(entries, [](const CorpusEntry& a, const CorpusEntry& b) {
    return std::tie(a.t, a.id) < std::tie(b.t, b.id);
  });
  std::error_code none;
  constexpr std::string_view kEnding = ".case.json";
  for (const auto& folder : fs::directory_iterator(dir + "/corpus", none)) {
    std::vector<CorpusEntry> strays;
    for (const auto& file : fs::directory_iterator(folder.path(), none)) {
      const std::string name = file.path().filename().string();
      if (!name.ends_with(kEnding)) continue;
      CorpusEntry entry;
      entry.id = name.substr(0, name.size() - kEnding.size());
      entry.kernel = folder.path().filename().string();
      entry.property = "reference";
      entry.origin = "drawn";
      if (!known.contains({entry.kernel, entry.id})) strays.push_back(std::move(entry));
    }
    std::ranges::sort(strays, {}, &CorpusEntry::id);
    entries.insert(entries.end(), strays.begin(), strays.end());
  }
  return entries;
}

Case read_corpus_case(const std::string& dir, const CorpusEntry& entry) {
  const std::string path = corpus_file(dir, entry.kernel, entry.id);
  auto decoded = decode(file_text(path, kInFolder));
  if (auto* error = std::get_if<DecodeError>(&decoded)) throw std::runtime_error(path + ": " + error->message);
  return std::get<Case>(decoded);
}

FindingsFile read_findings(const std::string& dir) {
  const std::string path = dir + "/findings.json";
  const auto j = read_json(path);
  if (!j)
    throw std::runtime_error(
        path + " is missing, so what was found is not known: bring back a copy, or begin in another folder");
  FindingsFile file = read_record<FindingsFile>(path, *j);
  for (const auto* list : {&file.findings, &file.never_again}) {
    for (const Finding& f : *list) {
      check_name(path, "a finding", f.name);
      for (const std::string& id : f.crashes) check_name(path, "a crash", id);
    }
  }
  return file;
}

void write_findings(const std::string& dir, const FindingsFile& findings) {
  write_json(dir + "/findings.json", Json(findings));
}

std::vector<Crash> read_crashes(const std::string& dir) {
  std::vector<Crash> crashes;
  std::error_code none;
  for (const auto& folder : fs::directory_iterator(dir + "/crashing", none)) {
    const std::string path = folder.path().string() + "/crash.json";
    // A folder with a dot was still being written.
    if (folder.path().filename().string().starts_with('.')) continue;
    const auto j = read_json(path);
    if (!j) continue;
    crashes.push_back(read_record<Crash>(path, *j));
    check_name(path, "a crash", crashes.back().id);
  }
  std::ranges::sort(crashes,
                    [](const Crash& a, const Crash& b) { return std::tie(a.t, a.id) < std::tie(b.t, b.id); });
  return crashes;
}

void write_crash(const std::string& dir, const Crash& crash, const std::string& trace) {
  const std::string folder = dir + "/crashing/" + crash.id, made = dir + "/crashing/." + crash.id;
  std::error_code none;
  if (fs::exists(folder, none)) return;  // the same case, filed earlier
  fs::create_directories(made);
  write_file(made + "/trace.jsonl", trace);
  write_json(made + "/crash.json", Json(crash));
  fs::rename(made, folder);
}

std::vector<SeededBugResult> read_seeded_bugs(const std::string& dir) {
  const std::string path = dir + "/canary.json";
  const auto j = read_json(path);
  return j ? read_record<std::vector<SeededBugResult>>(path, *j) : std::vector<SeededBugResult>{};
}

void write_seeded_bugs(const std::string& dir, const std::vector<SeededBugResult>& seeded_bugs) {
  write_json(dir + "/canary.json", Json(seeded_bugs));
}

std::string line_of(const SeriesLine& line) { return json_text(Json(line)); }
std::string line_of(const CorpusEntry& entry) { return json_text(Json(entry)); }
std::optional<SeriesLine> parse_series_line(const std::string& text) { return parse_line<SeriesLine>(text); }
std::optional<CorpusEntry> parse_corpus_line(const std::string& text) {
  auto entry = parse_line<CorpusEntry>(text);
  if (entry && !(is_file_name(entry->id) && is_file_name(entry->kernel))) return std::nullopt;
  return entry;
}

}  // namespace attnfuzz
