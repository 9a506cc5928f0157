#include "fuzz/campaign/store/jobs/corpus_view.h"

#include <algorithm>
#include <stdexcept>

#include "base/json.h"
#include "properties/data/fills.h"

namespace attnfuzz {
namespace {

// Decoded cases in memory, enough for those that are picked most.
constexpr size_t kMostCases = 4096;
constexpr double kCheapSeconds = 0.01;
constexpr uint64_t kTurns = 8;

// A number from a hexadecimal digest, the same on every machine and in every session.
uint64_t number_of(const std::string& id) {
  uint64_t n = 0;
  for (char c : id) n = n * 31 + static_cast<unsigned char>(c);
  return n;
}

}  // namespace

std::string confirmed_line(const std::string& id, const std::string& target) {
  return json_text(Json{{"id", id}, {"target", target}});
}

std::multimap<std::string, std::string> read_confirmed(const std::string& dir) {
  std::multimap<std::string, std::string> targets;
  for (int shard : shards_of(dir)) {
    for (const std::string& text : read_lines(shard_dir(dir, shard) + "/confirmed.jsonl")) {
      const auto j = json_line(text);
      if (!j || !j->is_object()) continue;
      const auto id = j->find("id"), target = j->find("target");
      if (id == j->end() || target == j->end() || !id->is_string() || !target->is_string()) continue;
      targets.emplace(*id, *target);
    }
  }
  return targets;
}

CorpusView::CorpusView(std::string dir, std::string kernel, std::string target, int peer, int peers)
    : dir_(std::move(dir)),
      kernel_(std::move(kernel)),
      target_(std::move(target)),
      peer_(static_cast<uint64_t>(peer)),
      peers_(static_cast<uint64_t>(std::max(peers, 1))) {
  for (const auto& [id, where] : read_confirmed(dir_)) {
    if (where == target_) confirmed_.insert(id);
  }
  // The first refresh also takes files whose line was lost. Later ones read only lines.
  for (int shard : shards_of(dir_))
    tails_.try_emplace(shard, shard_dir(dir_, shard) + "/corpus.jsonl").first->second.more();
  for (const CorpusEntry& entry : read_corpus(dir_)) add(entry);
}

void CorpusView::add(const CorpusEntry& entry) {
  if (entry.kernel != kernel_ || !known_.insert(entry.id).second) return;
  entries_.push_back(entry);
  const bool mine = number_of(entry.id) % peers_ == peer_;
  if (mine && entry.target != target_ && !confirmed_.contains(entry.id)) waiting_.push_back(entry);
}

void CorpusView::refresh() {
  for (int shard : shards_of(dir_)) tails_.try_emplace(shard, shard_dir(dir_, shard) + "/corpus.jsonl");
  for (auto& [shard, tail] : tails_) {
    for (const std::string& text : tail.more()) {
      if (const auto entry = parse_corpus_line(text)) add(*entry);
    }
  }
}

std::optional<CorpusEntry> CorpusView::to_confirm() {
  if (waiting_.empty()) return std::nullopt;
  CorpusEntry entry = std::move(waiting_.front());
  waiting_.pop_front();
  return entry;
}

std::optional<Case> CorpusView::pick(uint64_t random) {
  const uint64_t n = entries_.size();
  if (n == 0) return std::nullopt;
  // Mutants of slow cases are slow too, so the chance of a pick falls with the time that a case
  // takes.
  const CorpusEntry* entry = nullptr;
  for (uint64_t turn = 0; turn < kTurns; ++turn) {
    const uint64_t bits = mix(random, turn, 0, 0, 0);
    entry = &entries_[std::max((bits & 0xffffff) % n, (bits >> 24 & 0xffffff) % n)];
    if (entry->seconds * static_cast<double>(bits >> 48) <= kCheapSeconds * 65536.0) break;
  }
  return read(*entry);
}

std::optional<Case> CorpusView::read(const CorpusEntry& entry) {
  const auto known = cases_.find(entry.id);
  if (known != cases_.end()) return known->second;
  try {
    Case c = read_corpus_case(dir_, entry);
    if (cases_.size() >= kMostCases) cases_.clear();
    return cases_.emplace(entry.id, std::move(c)).first->second;
  } catch (const std::runtime_error&) {
    return std::nullopt;  // the file has another version or was edited; a replay of the folder reports it
  }
}

}  // namespace attnfuzz
