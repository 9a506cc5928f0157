#include "fuzz/campaign/run/explore.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <set>

#include "base/hash.h"
#include "fuzz/batch/batch_pipeline.h"
#include "fuzz/campaign/run/crash_filing.h"
#include "fuzz/campaign/run/explore_sequences.h"
#include "fuzz/campaign/run/filing_limits.h"
#include "fuzz/campaign/run/observed_target.h"
#include "fuzz/campaign/store/coverage_file.h"
#include "fuzz/campaign/store/jobs/corpus_view.h"
#include "fuzz/campaign/store/jobs/journal.h"
#include "fuzz/campaign/store/warnings.h"
#include "fuzz/check/shard.h"
#include "properties/case/codec/codec.h"
#include "properties/case/features/feature.h"
#include "properties/data/fills.h"
#include "properties/draw/afford.h"
#include "properties/draw/mutate.h"
#include "properties/draw/ordinary.h"
#include "properties/judge/oracles.h"
#include "properties/judge/situations.h"

namespace attnfuzz {
namespace {

// After this many hangs of a slice, calls get the brief watch, because each hang takes the full watch. A
// brief hang counts only at a place where a call has already used up the full watch; elsewhere the case is
// judged again with the full watch.
constexpr int kMostFullWatches = 2;
constexpr double kSeriesSeconds = 5, kRefreshSeconds = 1;

// A case between its draw and the archive.
struct Candidate {
  Case c;
  const Property* property = nullptr;
  std::string origin;
  std::string confirms;  // id of the entry that is confirmed
  uint64_t index = 0;
  int attempts = 1;
};

class Explorer {
 public:
  explicit Explorer(const Slice& slice)
      : s_(slice),
        name_(slice.target.record.name),
        folder_(shard_dir(slice.options.dir, slice.shard)),
        slot_(slice.shared.slots[slice.shard]) {
    // Reads the old journal, so it must come before the new one is opened.
    interrupted_ = batch_in_flight(folder_);
    std::string error;
    target_ = slice.target.open(&error);
    if (target_ == nullptr) throw std::runtime_error(error);
    if (slice.target.put_oracle) slice.target.put_oracle(*target_, false);
    if (slice.target.batch > 0) {
      shared_target_.emplace(std::move(target_));
      target_ = shared_target_->share();
      own_workers_.emplace([this] { return open_own(); }, slice.options.gpu_own_workers);
      pipeline_.emplace(*shared_target_, slice.target.calibration,
                        mix(slice.options.seed, text_hash(name_), 4, 0, 0), slice.options.gpu_threads,
                        slice.options.gpu_own_workers > 0 ? &*own_workers_ : nullptr);
    }
    observed_.emplace(*target_);
    CheckOptions check;
    check.work = slice.options.work;
    check.batch = slice.target.batch;
    check.properties = slice.target.properties;
    check.device_work = slice.options.device_work;
    check.refused = slice.target.refused;
    check.finite = slice.options.finite;
    {
      const Turn turn = target_->turn();
      config_ = config_for(*observed_, check);
    }
    stats_ = read_stats(slice.options.dir, slice.shard);
    oracle_before_ = counts().oracle;
    batch_before_ = counts().batch;
    const std::vector<SeriesLine> lines = read_series(slice.options.dir, slice.shard);
    if (!lines.empty() && lines.back().cases > stats_.last.cases) stats_.last = lines.back();
    restarts_before_ = slot_.restarts;
    view_.emplace(slice.options.dir, slice.target.folder, name_, slice.sibling, slice.siblings);
    save([&] {
      corpus_.emplace(folder_ + "/corpus.jsonl");
      confirmed_.emplace(folder_ + "/confirmed.jsonl");
      series_.emplace(folder_ + "/series.jsonl");
      journal_.emplace(folder_, slice.target.batch * static_cast<size_t>(slice.options.gpu_threads + 1));
    });
    leave_out_sequences();
    if (slice.target.record.sequences)
      sequences_.emplace(slice, stats_, [this](const std::function<void()>& write) { save(write); });
    begun_ = told_ = refreshed_ = Clock::now();
    stream_ = mix(slice.options.seed, text_hash(name_), static_cast<uint64_t>(slice.shard), 0, 0);
  }

  void run() {
    for (const Journaled& entry : interrupted_) again(entry);
    if (sequences_) {
      save([&] { journal_->rest(); });
      sequences_->resume();
    }
    while (goes_on()) {
      if (s_.target.record.seeded_bug && filed_ > 0) break;
      if (sequences_ && sequences_->due(wall_so_far()))
        take_sequences();
      else if (pipeline_)
        take_batch();
      else
        take(next());
      const auto now = Clock::now();
      if (seconds_since(refreshed_) > kRefreshSeconds) view_->refresh(), refreshed_ = now;
      if (seconds_since(told_) > kSeriesSeconds) tell();
    }
    while (!in_flight_.empty()) conclude_batch();
    save([&] { journal_->rest(); });
    tell();
    if (met_.cases() > 0) save([&] { add_coverage(s_.options.dir, name_, met_, config_); });
  }

 private:
  bool goes_on() const { return Clock::now() < s_.end && !s_.shared.stop && done_ < s_.most_cases; }
  TargetStats& counts() { return stats_.targets[name_]; }

  std::unique_ptr<Target> open_own() const {
    std::string error;
    std::unique_ptr<Target> target = s_.target.open(&error);
    if (target == nullptr) throw std::runtime_error(error);
    if (s_.target.put_oracle) s_.target.put_oracle(*target, false);
    return target;
  }

  // True for a case whose rows are too long for this target. A target on a GPU may have put it into the corpus.
  bool too_long(const Case& c) const {
    return exact_work(c.problem) > std::max(far_work(config_), config_.device_work);
  }

  void save(const std::function<void()>& write) {
    persist(slot_.waits, [&] { return s_.shared.finish.load(); }, write);
  }

  // Runs the case again that was in flight when this shard's process ended, because the case may have ended it.
  // A case that has ended kMostExits jobs is filed as a crash. Jobs that ended with their supervisor do not
  // count.
  void again(const Journaled& entry) {
    if (entry.target != name_) return;
    Candidate candidate = {entry.c,           find_property(entry.property), "drawn", "", entry.index,
                           entry.attempts + 1};
    if (candidate.property == nullptr) return;
    if (shard_exits(folder_, entry) < kMostExits) return take(std::move(candidate));
    Verdict verdict;
    verdict.outcome = Outcome::kFail;
    verdict.kind = Kind::kCrash;
    verdict.property = candidate.property->name;
    verdict.message =
        "the process that judged it died or was stuck, " + std::to_string(kMostExits) + " times in a row";
    file(candidate, verdict);
  }

  const Property& property_of(uint64_t index) const {
    return *s_.target.properties[index % s_.target.properties.size()];
  }

  Candidate next() {
    Candidate candidate;
    candidate.index = stats_.next[name_]++;
    const uint64_t random = mix(stream_, candidate.index, 1, 0, 0),
                   more = mix(stream_, candidate.index, 2, 0, 0);
    candidate.property = &property_of(candidate.index);
    if (random % 2 == 0) {
      if (auto entry = view_->to_confirm()) {
        auto c = view_->read(*entry);
        if (c && too_long(*c)) {
          ++counts().origins["left to a GPU"];
          save([&] { confirmed_->append(confirmed_line(entry->id, name_)); });
        } else if (c) {
          candidate.c = std::move(*c);
          for (const Refusal* refusal : config_.never) refusal->strip(candidate.c);
          candidate.confirms = entry->id;
          candidate.origin = "confirmed";
          if (const Property* own = find_property(entry->property)) {
            const bool usual = std::ranges::find(properties(), own) != properties().end();
            if (speaks_of(*own, target_->info()) && (usual || target_->peer)) candidate.property = own;
          }
          return candidate;
        }
      }
    }
    const uint64_t choice = random / 2 % 8;  // 0..3 drawn, 4..6 mutated, 7 crossed
    if (choice < 4 || view_->empty()) return drawn(std::move(candidate));
    const auto a = parent(more);
    if (!a) return drawn(std::move(candidate));
    const uint64_t seed = mix(stream_, candidate.index, 3, 0, 0);
    candidate.origin = "mutated";
    if (choice == 7) {
      if (const auto b = parent(mix(more, 1, 0, 0, 0))) {
        candidate.c = cross(*a, *b, config_, seed);
        candidate.origin = "crossed";
        return candidate;
      }
    }
    candidate.c = mutate(*a, config_, seed);
    return candidate;
  }

  // A case of the corpus to mutate; nothing if there is none, or if its rows are too long.
  std::optional<Case> parent(uint64_t random) {
    auto c = view_->pick(random);
    if (!c || !too_long(*c)) return c;
    ++counts().long_parents;
    return std::nullopt;
  }

  Candidate drawn(Candidate candidate) {
    candidate.c = draw(config_, stream_, candidate.index);
    candidate.origin = "drawn";
    return candidate;
  }

  void take(Candidate candidate) {
    if (!admitted(candidate)) return;
    save([&] { journal_->begin(journaled(candidate)); });
    conclude(candidate, judged(candidate));
  }

  // Adds a batch of cases to the pipeline, in which earlier batches may still be in flight. The journal names
  // all its cases before they are launched.
  void take_batch() {
    std::vector<Candidate> together;
    while (together.size() < s_.target.batch && goes_on()) {
      Candidate candidate = next();
      if (admitted(candidate)) together.push_back(std::move(candidate));
    }
    if (together.empty()) return;
    std::vector<Journaled> entries;
    std::vector<BatchCase> asked;
    for (const Candidate& candidate : together) {
      entries.push_back(journaled(candidate));
      asked.push_back({candidate.c, candidate.property});
    }
    size_t still = 0;
    for (const std::vector<Candidate>& batch : in_flight_) still += batch.size();
    save([&] { journal_->begin(entries, still); });
    pipeline_->add(std::move(asked));
    in_flight_.push_back(std::move(together));
    if (pipeline_->full()) conclude_batch();
  }

  // Runs sequences of calls for their share of the time. With batches, it first empties the pipeline. That is
  // costly, so it then runs sequences until the library's process is renewed.
  void take_sequences() {
    while (!in_flight_.empty()) conclude_batch();
    save([&] { journal_->rest(); });
    do sequences_->next();
    while (goes_on() && (pipeline_ ? !sequences_->at_border() : sequences_->due(wall_so_far())));
  }

  // Counts the sequence of calls that was in flight when the shard's process ended, unless this slice runs it
  // again. WorkerPool prefers its target, so a slice of another target means that it cannot run. At rest, the
  // journal charges it with no further death.
  void leave_out_sequences() {
    const std::vector<JournaledSequence> left = sequences_in_flight(folder_);
    if (left.empty()) return;
    const std::string& of = left.back().target;
    const TargetRecord& record = s_.target.record;
    if (of == name_ && record.sequences) return;
    std::string why = record.no_sequences;
    if (of != name_)
      why = "the next slice was of another target";
    else if (why.empty())
      why = "the next session was without --sequences";
    stats_.targets[of].sequences.leave_out("after a kill: " + why, 1);
    save([&] { write_stats(s_.options.dir, s_.shard, stats_); });
    save([&] { SequenceJournal(folder_).rest(); });
  }

  // Seconds that this shard has spent on the target, in all slices.
  double wall_so_far() { return counts().wall + seconds_since(begun_) - told_wall_; }

  // Waits for the batch that has been in flight longest.
  void conclude_batch() {
    const std::vector<Verdict> verdicts = pipeline_->next();
    const std::vector<Candidate> together = std::move(in_flight_.front());
    in_flight_.pop_front();
    observed_->begin_case();  // batches do not count edges
    for (size_t n = 0; n < together.size(); ++n) {
      batch_kernel_s_ += verdicts[n].kernel_s;
      conclude(together[n], verdicts[n]);
    }
  }

  Journaled journaled(const Candidate& candidate) const {
    return {name_, candidate.property->name, candidate.c, candidate.index, candidate.attempts};
  }

  // False if the case is not launched: the ledger has it in quarantine, or its property does not take it.
  bool admitted(Candidate& candidate) {
    ++done_;
    if (candidate.attempts == 1) enter_build(candidate.c, s_.target.record.build_kind, candidate.index);
    if (!s_.options.ledger.known.empty()) {
      const TargetRecord& r = s_.target.record;
      if (quarantined(s_.options.ledger, candidate.c,
                      {r.kernel, r.backend, r.build_kind, config_.tiles_q[0], config_.tiles_k[0]})) {
        ++counts().quarantined;
        confirm(candidate);
        return false;
      }
    }
    observed_->begin_case();
    if (const auto rejected = rejected_by(*candidate.property, candidate.c, *target_)) {
      conclude(candidate, *rejected);
      return false;
    }
    return true;
  }

  void conclude(const Candidate& candidate, const Verdict& verdict) {
    count(candidate, verdict);
    if (verdict.outcome == Outcome::kFail) {
      file(candidate, verdict);
    } else {
      if (verdict.warning && !s_.target.record.seeded_bug) warn(*verdict.warning);
      keep(candidate, verdict);
    }
    confirm(candidate);
  }

  void confirm(const Candidate& candidate) {
    if (!candidate.confirms.empty())
      save([&] { confirmed_->append(confirmed_line(candidate.confirms, name_)); });
  }

  Verdict judged(const Candidate& candidate) {
    // Only a hang may be judged again here. Any other verdict stands, because triage runs the case again.
    Verdict verdict = judge(candidate.c, *candidate.property, *observed_, s_.target.calibration);
    if (verdict.kind != Kind::kHang && verdict.kind != Kind::kSlow) return verdict;
    if (briefly_ && (verdict.kind == Kind::kSlow || !hung_at_.contains(verdict.site))) {
      watch(Watch::kFull);
      briefly_ = false;
      verdict = judge(candidate.c, *candidate.property, *observed_, s_.target.calibration);
    }
    if (verdict.kind == Kind::kHang) {
      if (!verdict.site.empty()) hung_at_.insert(verdict.site);
      briefly_ = ++full_watches_ >= kMostFullWatches && !verdict.site.empty();
    }
    watch(briefly_ ? Watch::kBrief : Watch::kFull);
    return verdict;
  }

  void watch(Watch watch) {
    const Turn turn = target_->turn();
    target_->watch(watch);
  }

  void count(const Candidate& candidate, const Verdict& verdict) {
    counts().add(candidate.c, verdict);
    add_met(met_, candidate.c, verdict);
    ++counts().origins[candidate.origin];
    SeriesLine& last = stats_.last;
    ++last.cases;
    ++last.since_new;
    last.passed += verdict.outcome == Outcome::kPass;
    last.rejected += verdict.outcome == Outcome::kRefused;
    last.uninformative += verdict.outcome == Outcome::kNotJudged;
    last.failed += verdict.outcome == Outcome::kFail;
    ++slot_.cases;
  }

  void file(const Candidate& candidate, const Verdict& verdict) {
    if (filing_.has_enough_of(verdict.site)) {
      ++counts().of_one_site;
      return;
    }
    std::atomic<int32_t>* const waiting = filing_.place(verdict, false);
    if (waiting == nullptr) {
      ++counts().not_filed[to_string(verdict.kind)];
      return;
    }
    Crash crash = filing_.crash(verdict, digest(candidate.c), candidate.index);
    crash.c = candidate.c;
    crash.shape = text_of(verdict.shapes);
    const Journaled own = journaled(candidate);
    save([&] { write_crash(s_.options.dir, crash, text_of(trace_of(folder_, &own))); });
    ++*waiting;
    ++filed_;
    ++stats_.last.crashes;
  }

  void warn(const StatisticalWarning& warning) {
    if (has_warning(s_.options.dir, name_, warning.sign)) return;
    Verdict verdict;
    verdict.property = "reference";
    verdict.message = warning.message;
    Reproducer r = [&] {
      const Turn turn = target_->turn();
      return reproducer_of(warning.c, verdict, target_->info(), *target_);
    }();
    r.kind = kWarningKind;
    save([&] { write_warning(s_.options.dir, name_, warning.sign, r); });
  }

  // The archive takes a case that shows something that no case of this kernel and back end has shown. It
  // ignores how often an edge was taken: every thread of the grid takes it, and counters wrap at 256, so sooner
  // or later every edge would appear in every bucket, with an entry for each. Situations show whether loops run
  // once or splits are empty.
  void keep(const Candidate& candidate, const Verdict& verdict) {
    if (s_.target.record.seeded_bug) return;
    CorpusEntry entry;
    for (uint16_t id : situations(candidate.c, verdict)) {
      if (id < kMostSituations && s_.group.situations[id] == 0) entry.situations.push_back(id);
    }
    const std::vector<uint8_t>& edges = observed_->coverage_of_case();
    for (uint32_t edge = 0; edge < std::min<size_t>(edges.size(), kMostEdges); ++edge) {
      if (edges[edge] != 0 && s_.group.edges[edge] == 0) entry.edges.push_back(edge);
    }
    if (entry.situations.empty() && entry.edges.empty()) return;
    Case c = candidate.c;
    c.build_kind = "plain";
    entry.id = digest(c);
    entry.kernel = s_.target.folder;
    entry.target = name_;
    entry.property = verdict.property;
    entry.origin = candidate.origin;
    entry.t = s_.clock.now();
    entry.seconds = verdict.lay_out_s + verdict.kernel_s + verdict.oracle_s + verdict.judge_s;
    if (!view_->contains(entry.id)) {
      const std::string file = corpus_file(s_.options.dir, entry.kernel, entry.id);
      // The case is written first, so that a line always has its case.
      save([&] {
        if (!std::filesystem::exists(file)) write_file(file, encode(c));
      });
      save([&] { corpus_->append(line_of(entry)); });
      ++stats_.last.corpus;
      ++s_.group.entries;
    }
    // Marks it as seen last: if a kill comes before the file is written, the case will be found
    // again.
    for (uint16_t id : entry.situations) s_.group.known_situations += mark(s_.group.situations[id]);
    for (uint32_t edge : entry.edges) s_.group.known_edges += mark(s_.group.edges[edge]);
    stats_.last.since_new = 0;
  }

  double kernel_seconds() const {
    return observed_->kernel_seconds() + batch_kernel_s_ + (pipeline_ ? pipeline_->use().run_s : 0) +
           (sequences_ ? sequences_->kernel_seconds() : 0);
  }

  void tell() {
    SeriesLine& last = stats_.last;
    last.t = s_.clock.now();
    last.target = name_;
    last.situations = s_.group.known_situations;
    last.coverage = s_.group.known_edges;
    last.restarts = restarts_before_;
    last.gpu = s_.gpu;
    const double wall = seconds_since(begun_), kernel = kernel_seconds();
    last.wall += wall - told_wall_;
    counts().wall += wall - told_wall_;
    last.kernel += kernel - told_kernel_;
    told_wall_ = wall;
    told_kernel_ = kernel;
    if (target_->oracles) {
      const Turn turn = target_->turn();  // because judging changes these counts
      counts().oracle = oracle_before_;
      counts().oracle.merge(target_->oracles->use());
      if (own_workers_) counts().oracle.merge(own_workers_->oracle_use());
    }
    if (pipeline_) {
      counts().batch = batch_before_;
      counts().batch.merge(pipeline_->use());
    }
    save([&] { series_->append(line_of(last)); });
    save([&] { write_stats(s_.options.dir, s_.shard, stats_); });
    told_ = Clock::now();
  }

  const Slice& s_;
  const std::string name_, folder_;
  JobSlot& slot_;
  std::vector<Journaled> interrupted_;
  std::optional<SharedTarget> shared_target_;  // with batches
  std::unique_ptr<Target> target_;             // the slice's own target, or a share of shared_target_
  std::optional<ObservedTarget> observed_;
  GeneratorConfig config_;
  ShardStats stats_;
  std::optional<OwnWorkers> own_workers_;         // with batches
  std::optional<BatchPipeline> pipeline_;         // judges many cases at once on a GPU; without it, one by one
  std::deque<std::vector<Candidate>> in_flight_;  // the batches in the pipeline
  double batch_kernel_s_ = 0;  // kernel time of batches' cases that were judged by themselves
  OracleUse oracle_before_;    // of this target, before this slice
  BatchUse batch_before_;      // likewise
  uint64_t restarts_before_ = 0, stream_ = 0, done_ = 0, filed_ = 0;
  std::optional<CorpusView> view_;
  std::optional<LineFile> corpus_, confirmed_, series_;
  std::optional<Journal> journal_;
  std::optional<SequenceExplorer> sequences_;
  Coverage met_;  // the classes met in this slice
  int full_watches_ = 0;
  bool briefly_ = false;           // calls get the brief watch
  std::set<std::string> hung_at_;  // Verdict::site of hangs that used up the full watch
  CrashFiling filing_{s_};
  Clock::time_point begun_, told_, refreshed_;
  double told_wall_ = 0, told_kernel_ = 0;
};

}  // namespace

void explore(const Slice& slice) { Explorer(slice).run(); }

}  // namespace attnfuzz
