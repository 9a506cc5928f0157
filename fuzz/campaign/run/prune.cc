#include "fuzz/campaign/run/prune.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "base/json.h"
#include "fuzz/campaign/run/observed_target.h"
#include "properties/case/codec/codec.h"
#include "properties/judge/situations.h"

namespace attnfuzz {
namespace {

// Every change replays the corpus, so slower cases stay in the campaign's folder.
constexpr double kMostSeconds = 0.25;
// Added to each case's cost, because to start a replay takes time too.
constexpr double kLeastSeconds = 0.002;

struct Entry {
  Case c;
  std::string id;
  std::vector<uint64_t> shows;
  double seconds = 0;
  bool taken = false;  // some target ran it
};

// Runs the case, and adds what it shows. A case that a replay on this target refuses shows nothing.
Outcome add(size_t number, const CampaignTarget& target, ObservedTarget& worker, Entry& candidate) {
  Case c = candidate.c;
  c.build_kind = target.record.build_kind;
  const Property& reference = *find_property("reference");
  if (!other_operation(c, reference, worker).empty()) return Outcome::kRefused;
  worker.begin_case();
  const Verdict verdict = judge(c, reference, worker, target.calibration);
  if (verdict.outcome != Outcome::kPass) return verdict.outcome;
  candidate.taken = true;
  candidate.seconds += verdict.lay_out_s + verdict.kernel_s + verdict.oracle_s + verdict.judge_s;
  const uint64_t base = static_cast<uint64_t>(number) << 40;
  for (uint16_t id : situations(c, verdict)) candidate.shows.push_back(base | id);
  const std::vector<uint8_t>& edges = worker.coverage_of_case();
  for (size_t edge = 0; edge < edges.size(); ++edge) {
    if (edges[edge] != 0) candidate.shows.push_back(base | uint64_t{1} << 32 | edge);
  }
  return verdict.outcome;
}

std::string name_of(const Entry& candidate) {
  std::string name;
  int parts = 0;
  for (const std::string& part : features(candidate.c, 64, 64)) {
    // A feature that most cases have makes no useful name.
    if (part == "kv tail" || part == "sq != sk" || part == "random schedule" || part == "other variant" ||
        part == "d % 8 != 0" || part == "bf16" || part == "layout")
      continue;
    if (++parts > 4) break;
    for (const char ch : part + "-") {
      const bool keep = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9');
      if (keep || (!name.empty() && name.back() != '-')) name += keep ? ch : '-';
    }
  }
  return (name.empty() ? "plain-" : name) + candidate.id.substr(0, 6);
}

// One line for each field of the case.
std::string readable(const Case& c) {
  const Json j = json_of(encode(c));
  std::string text = "{\n  \"format\": " + json_text(j.at("format"));
  for (const auto& [key, value] : j.items()) {
    if (key != "format") text += ",\n  " + json_text(Json(key)) + ": " + json_text(value);
  }
  return text + "\n}\n";
}

// Repeatedly keeps the candidate that adds most for its cost, until none adds anything.
void cover(const std::vector<Entry>& candidates, size_t most, PruneResult& result) {
  std::set<uint64_t> shown;
  while (result.kept.size() < most) {
    const Entry* best = nullptr;
    double best_worth = 0;
    size_t best_fresh = 0;
    for (const Entry& candidate : candidates) {
      size_t fresh = 0;
      for (uint64_t id : candidate.shows) fresh += !shown.contains(id);
      const double worth = static_cast<double>(fresh) / (candidate.seconds + kLeastSeconds);
      if (worth > best_worth) best = &candidate, best_worth = worth, best_fresh = fresh;
    }
    if (best == nullptr) break;
    shown.insert(best->shows.begin(), best->shows.end());
    result.kept.push_back({name_of(*best), readable(best->c), best->c, best_fresh, best->seconds});
  }
  result.kept_shown = shown.size();
}

}  // namespace

PruneResult prune(const std::string& dir, const std::vector<CampaignTarget>& targets, size_t most) {
  PruneResult result;
  std::vector<Entry> candidates;
  std::set<std::string> ids;
  for (const CorpusEntry& entry : read_corpus(dir)) {
    if (!ids.insert(entry.id).second) continue;
    candidates.push_back({read_corpus_case(dir, entry), entry.id, {}, 0});
  }
  result.entries = candidates.size();
  if (candidates.empty()) throw std::runtime_error(dir + " has no corpus yet");
  std::set<size_t> failing, unjudged;
  for (size_t number = 0; number < targets.size(); ++number) {
    std::string error;
    const std::unique_ptr<Target> worker = targets[number].open(&error);
    if (worker == nullptr) throw std::runtime_error(error);
    ObservedTarget observed(*worker);
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (failing.contains(i)) continue;
      const Outcome outcome = add(number, targets[number], observed, candidates[i]);
      if (outcome == Outcome::kFail) failing.insert(i);
      if (outcome == Outcome::kNotJudged) unjudged.insert(i);
    }
  }
  for (const size_t i : failing) unjudged.erase(i);
  result.failing = failing.size();
  result.unjudged = unjudged.size();
  std::set<uint64_t> all;
  std::vector<Entry> left;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (failing.contains(i) || unjudged.contains(i)) continue;
    all.insert(candidates[i].shows.begin(), candidates[i].shows.end());
    if (!candidates[i].taken) {
      ++result.refused;
    } else if (candidates[i].seconds > kMostSeconds) {
      ++result.slow;
    } else {
      left.push_back(std::move(candidates[i]));
    }
  }
  result.shown = all.size();
  cover(left, most, result);
  return result;
}

}  // namespace attnfuzz
