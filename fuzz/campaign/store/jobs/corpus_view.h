// The archive as one job sees it while others add to it.
//
//   CorpusView view(dir, "fa1", "fa1.cuda.plain", 0, 2);
//   view.refresh();                         // about once a second
//   if (auto* e = view.to_confirm()) ...    // shown by another target, not yet run on this one
//   if (!view.empty()) const Case& c = view.pick(random);
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "fuzz/campaign/store/archive.h"
#include "fuzz/campaign/store/lines.h"

namespace attnfuzz {

class CorpusView {
 public:
  // `peer` of `peers`: this job's share of the entries to confirm.
  CorpusView(std::string dir, std::string kernel, std::string target, int peer, int peers);
  void refresh();
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  bool contains(const std::string& id) const { return known_.contains(id); }
  // Takes an entry to confirm; nothing if there is none.
  std::optional<CorpusEntry> to_confirm();
  // Picks an entry, and prefers recent and cheap ones. Nothing if the entry cannot be read.
  std::optional<Case> pick(uint64_t random);
  std::optional<Case> read(const CorpusEntry& entry);

 private:
  void add(const CorpusEntry& entry);

  std::string dir_, kernel_, target_;
  uint64_t peer_, peers_;
  std::map<int, LineTail> tails_;
  std::vector<CorpusEntry> entries_;
  std::set<std::string> known_, confirmed_;
  std::deque<CorpusEntry> waiting_;
  std::unordered_map<std::string, Case> cases_;
};

// A line of shards/N/confirmed.jsonl.
std::string confirmed_line(const std::string& id, const std::string& target);
// For a whole campaign: the other targets that have run an entry, by its id.
std::multimap<std::string, std::string> read_confirmed(const std::string& dir);

}  // namespace attnfuzz
