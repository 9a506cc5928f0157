#include "fuzz/campaign/run/explore_sequences.h"

#include <algorithm>
#include <cstdio>

#include "base/hash.h"
#include "fuzz/campaign/run/filing_limits.h"
#include "fuzz/campaign/store/jobs/journal.h"
#include "properties/data/fills.h"
#include "properties/sequences/draw/draw.h"
#include "properties/sequences/session/codec.h"

namespace attnfuzz {
namespace {

constexpr double kShareOfSequences = 0.25;  // of the time that a shard spends on a target
constexpr size_t kSequencesOfProcess = 50;
constexpr int kMostHangs = 2;  // each takes the full watch

sequences::SessionTargets alone(Target& target, const Calibration& calibration) {
  const sequences::SessionTarget one = {&target, calibration};
  return sequences::SessionTargets(std::span(&one, 1));
}

}  // namespace

std::string no_sequences_on(Target& target) {
  if (!alone(target, {}).empty()) return "";
  return "this kernel neither appends to pages, copies pages nor attends over them";
}

SequenceExplorer::SequenceExplorer(const Slice& slice, ShardStats& stats, Save save)
    : s_(slice),
      stats_(stats),
      save_(std::move(save)),
      name_(slice.target.record.name),
      folder_(shard_dir(slice.options.dir, slice.shard)),
      interrupted_(sequences_in_flight(folder_)),
      journal_(folder_),
      stream_(mix(slice.options.seed, text_hash(name_), static_cast<uint64_t>(slice.shard), 5, 0)),
      filing_(slice) {}

void SequenceExplorer::open() {
  if (target_ != nullptr) return;
  std::string error;
  target_ = s_.target.open(&error);
  if (target_ == nullptr) throw std::runtime_error(error);
  observed_.emplace(*target_);
  kernels_ = alone(*observed_, s_.target.calibration);
  features_ = common_features(kernels_);
  domains_ = domains_of(kernels_);
}

bool SequenceExplorer::due(double wall) const {
  if (hangs_ >= kMostHangs) return false;
  const auto of = stats_.targets.find(name_);
  return (of == stats_.targets.end() ? 0 : of->second.sequences.wall) < kShareOfSequences * wall;
}

bool SequenceExplorer::at_border() const { return new_process_; }

sequences::Session SequenceExplorer::drawn(uint64_t number) const {
  return sequences::draw_session(stream_ + number, features_, domains_);
}

void SequenceExplorer::next() {
  open();
  const uint64_t number = stats_.next_sequence[name_]++;
  const sequences::Session session = drawn(number);
  save_([&] { journal_.begin({name_, number, 1, sequences::encode({session, {}})}, new_process_); });
  judge(session, number, false);
  save_([&] { journal_.rest(); });
}

// Runs the sequences again that the ended process had run, so that the one in flight finds the same state. The
// journal keeps them until the last one has been judged. The statistics have those below next_sequence already.
void SequenceExplorer::resume() {
  if (interrupted_.empty() || interrupted_.back().target != name_) return;
  open();
  JournaledSequence last = interrupted_.back();
  uint64_t& next = stats_.next_sequence[name_];
  const uint64_t first_new = next;
  next = std::max(next, last.number + 1);
  const bool given_up = shard_exits(folder_, last) >= kMostExits;
  ++last.attempts;
  save_([&] { journal_.begin(last, false); });
  for (const JournaledSequence& entry : interrupted_) {
    const auto read = sequences::decode_session(entry.calls);
    const auto* of = std::get_if<sequences::SessionFile>(&read);
    const bool counted = entry.number < first_new && entry.number != last.number;
    if (of == nullptr) {  // written by another version
      if (!counted) counts().leave_out("after a kill: its journal cannot be read any more", 1);
    } else if (!given_up) {
      judge(of->chain.last, entry.number, counted);
    } else if (entry.number != last.number) {
      before_.push_back(of->chain.last);
    } else {
      Verdict verdict;
      verdict.outcome = Outcome::kFail;
      verdict.kind = Kind::kCrash;
      verdict.message =
          "the process that judged it died or was stuck, " + std::to_string(kMostExits) + " times in a row";
      ++counts().sequences, ++counts().failed;
      file(of->chain.last, entry.number, verdict, "");
    }
  }
  if (given_up) before_.clear(), new_process_ = true;
  save_([&] { journal_.rest(); });
}

void SequenceExplorer::judge(const sequences::Session& session, uint64_t number, bool counted) {
  const auto began = Clock::now();
  if (new_process_) {
    kernels_.renew();
    before_.clear();
    new_process_ = false;
  }
  const sequences::SessionResult result = sequences::check_session(session, kernels_);
  const bool failed = result.verdict.outcome == Outcome::kFail;
  if (!counted) count(session, result);
  if (failed) {
    if (counted) ++counts().failed;  // it passed before
    file(session, number, result.verdict, result.call);
    new_process_ = true;
    if (result.verdict.kind == Kind::kHang && ++hangs_ == kMostHangs)
      counts().leave_out("sequences of the rest of a slice, in which " + std::to_string(kMostHangs) + " hung",
                         1);
  } else {
    before_.push_back(session);
    new_process_ = before_.size() == kSequencesOfProcess;
  }
  counts().wall += seconds_since(began);
  ++s_.shared.slots[s_.shard].sequences;
}

void SequenceExplorer::count(const sequences::Session& session, const sequences::SessionResult& result) {
  SequenceStats& stats = counts();
  ++stats.sequences;
  stats.steps += session.steps.size();
  stats.calls += result.calls;
  const bool failed = result.verdict.outcome == Outcome::kFail;
  stats.failed += failed;
  stats.bounded += result.bounded;
  // The error of a failure may be infinite, and JSON has no such number.
  if (!failed) stats.worst = std::max(stats.worst, result.worst);
  for (const auto& [call, count] : result.counts) {
    stats.asked[call.second] += count.asked;
    if (count.judged > 0) stats.judged[call.second] += count.judged;
  }
  for (const auto& [why, n] : result.left_out) stats.leave_out(why, n);
}

void SequenceExplorer::file(const sequences::Session& session, uint64_t number, const Verdict& verdict,
                            const std::string& call) {
  const std::string kind = to_string(verdict.kind);
  if (filing_.has_enough_of(verdict.site)) {
    ++counts().of_one_site;
    return;
  }
  std::atomic<int32_t>* const waiting = filing_.place(verdict, true);
  if (waiting == nullptr) {
    ++counts().not_filed[kind];
    return;
  }
  const TargetRecord& r = s_.target.record;
  const sequences::Chain chain = {session, before_};
  char digest[17];
  std::snprintf(digest, sizeof digest, "%016llx",
                static_cast<unsigned long long>(text_hash(sequences::encode(chain))));
  Crash crash = filing_.crash(verdict, digest, number);
  crash.property = kOfSequences;
  crash.calls = sequences::encode(chain, {{r.kernel}, kind, verdict.message, r.backend, r.build_kind, call});
  save_([&] { write_crash(s_.options.dir, crash, ""); });
  ++*waiting;
}

}  // namespace attnfuzz
