#include "fuzz/campaign/triage.h"

#include <algorithm>
#include <filesystem>

#include "fuzz/campaign/explained.h"
#include "fuzz/campaign/issue_text.h"
#include "fuzz/campaign/journal.h"
#include "fuzz/check/shard.h"
#include "properties/codec.h"
#include "properties/fault_class.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kRuns = 3, kMoreRuns = 10;
constexpr int kMostAttempts = 2;  // of looking at one crash, if that ends the process that looks
constexpr double kCanarySeconds = 10;

// The kind of the bug that a lane's canary has.
std::string planted(const std::string& lane) {
  if (lane == "asan") return to_string(Kind::kAddress);
  if (lane.starts_with("msan")) return to_string(Kind::kUninitialised);
  if (lane == "tsan") return to_string(Kind::kRace);
  return to_string(Kind::kWrong);
}

class OneCrash {
 public:
  OneCrash(const Triage& t, const CampaignTarget& target, const Crash& crash)
      : t_(t),
        target_(target),
        crash_(crash),
        folder_(t.options.dir + "/crashing/" + crash.id),
        out_(t.options.dir + (target.record.canary ? "/canary" : "/findings")),
        property_(find_property(crash.property)) {}

  void run() {
    if (is_counted()) return remove();
    const int attempt = attempts() + 1;
    blind_ = attempt > kMostAttempts;
    save([&] { write_file(folder_ + "/attempts", std::to_string(attempt) + "\n"); });
    finding_.target = target_.record.name;
    finding_.t = crash_.t;
    finding_.count = 1;
    finding_.found = describe(crash_.c);
    finding_.crashes = {crash_.id};
    verdict_.property = crash_.property;
    verdict_.message = crash_.message;
    verdict_.shape = crash_.shape;
    minimal_ = start_ = crash_.c;
    std::string error;
    worker_ = target_.open(&error);
    if (worker_ == nullptr) throw std::runtime_error(error);
    if (blind_ || property_ == nullptr) {
      finding_.repeats = Repeats::kNever;
      finding_.reduced = false;
      verdict_.message += " (looking at it again ended the process that looked)";
    } else {
      worker_->watch(Watch::kBrief);
      run_again();
      if (finding_.repeats == Repeats::kAlways && is_explained()) return remove();
      if (finding_.repeats == Repeats::kAlways || finding_.repeats == Repeats::kSometimes) reduce_it();
    }
    write();
    remove();
  }

 private:
  void save(const std::function<void()>& write) {
    persist(t_.waits, [&] { return t_.board.finish.load(); }, write);
  }

  int attempts() const {
    const auto text = read_file(folder_ + "/attempts");
    const auto* n = std::get_if<std::string>(&text);
    return n ? std::atoi(n->c_str()) : 0;
  }

  bool is_counted() const {
    const FindingsFile all = read_findings(t_.options.dir);
    const auto has = [&](const Finding& f) {
      return std::ranges::find(f.crashes, crash_.id) != f.crashes.end();
    };
    return std::ranges::any_of(all.findings, has) || std::ranges::any_of(all.never_again, has);
  }

  bool fails(const Case& c) {
    Verdict verdict = judge(c, *property_, *worker_, target_.calibration);
    if (verdict.outcome != Outcome::kFail) return false;
    // Ended from outside: that says nothing.
    if (verdict.kind == Kind::kCrash && verdict.message.find("SIGKILL") != std::string::npos &&
        crash_.message.find("SIGKILL") == std::string::npos)
      return false;
    verdict_ = std::move(verdict);
    return true;
  }

  bool fails_in_fresh_process(const Case& c) {
    worker_->renew();
    ++finding_.runs;
    const bool failed = fails(c);
    finding_.failed += failed;
    return failed;
  }

  void run_again() {
    while (finding_.runs < kRuns) fails_in_fresh_process(crash_.c);
    if (finding_.failed == kRuns) {
      finding_.repeats = Repeats::kAlways;
      return;
    }
    if (finding_.failed == 0 && fails_after_others()) {
      finding_.repeats = Repeats::kAfterOthers;
      return;
    }
    while (finding_.runs < kMoreRuns) fails_in_fresh_process(crash_.c);
    finding_.repeats = finding_.failed > 0 ? Repeats::kSometimes : Repeats::kNever;
  }

  bool fails_after(const std::vector<Journaled>& trace, size_t first) {
    worker_->renew();
    for (size_t i = first; i < trace.size(); ++i) {
      const Property* property = find_property(trace[i].property);
      if (trace[i].target == crash_.target && property != nullptr && !(trace[i].c == crash_.c))
        judge(trace[i].c, *property, *worker_, target_.calibration);
    }
    return fails(crash_.c);
  }

  // Keeps the shortest end of the trace that does it, by halves.
  bool fails_after_others() {
    const auto text = read_file(folder_ + "/trace.jsonl");
    if (!std::holds_alternative<std::string>(text)) return false;
    std::vector<Journaled> trace = parse_trace(std::get<std::string>(text));
    if (trace.size() < 2 || !fails_after(trace, 0)) return false;
    size_t first = 0;
    while (trace.size() - first > 2) {
      const size_t half = first + (trace.size() - first) / 2;
      if (!fails_after(trace, half)) break;
      first = half;
    }
    trace.erase(trace.begin(), trace.begin() + static_cast<std::ptrdiff_t>(first));
    trace_ = text_of(trace);
    return true;
  }

  // By the property `reference`; a failure of another kind is told as a rejection.
  Verdict judged_alike(const Case& c, const std::string& key) {
    Verdict verdict = judge(c, *find_property("reference"), *worker_, target_.calibration);
    if (verdict.outcome == Outcome::kFail && reduction_key(target_.info, verdict) != key)
      verdict.outcome = Outcome::kReject;
    return verdict;
  }

  // Findings of this kernel that could be behind a case, and what they need.
  void recall() {
    const FindingsFile all = read_findings(t_.options.dir);
    for (const Finding& f : all.findings) {
      if (f.repeats != Repeats::kAlways || !f.reduced) continue;
      const auto owner =
          std::ranges::find_if(t_.targets, [&](const auto& x) { return x.record.name == f.target; });
      if (owner == t_.targets.end() || owner->folder != target_.folder) continue;
      const auto text = read_file(t_.options.dir + "/findings/" + f.name + ".attn.json");
      if (!std::holds_alternative<std::string>(text)) continue;
      const auto decoded = decode_reproducer(std::get<std::string>(text));
      const auto* r = std::get_if<Reproducer>(&decoded);
      if (r == nullptr || r->property != "reference") continue;
      Case c = r->c;
      c.lane = target_.record.lane;
      const Verdict again = judge(c, *find_property("reference"), *worker_, target_.calibration);
      known_.push_back(need_of(r->c, r->needs));
      known_.back().tile_q = again.plan.tile_q;
      known_.back().tile_k = again.plan.tile_k;
      known_names_.push_back(f.name);
    }
  }

  // Whether a finding that is there already is behind it; if another bug is, the
  // case is left without what the known ones need.
  bool is_explained() {
    recall();
    if (known_.empty()) return false;
    const std::string key = reduction_key(target_.info, verdict_);
    const JudgeIt judged = [&](const Case& c) { return judged_alike(c, key); };
    // What a relation met may be wrong by itself. If not, nothing can be told.
    std::vector<Case> by_itself = {start_};
    if (verdict_.failing) {
      by_itself.push_back(*verdict_.failing);
      by_itself.back().remap = Remap{};
    }
    Verdict alone;
    for (const Case& c : by_itself) {
      if (alone.outcome == Outcome::kFail) break;
      alone = judged(c);
      if (alone.outcome == Outcome::kFail) start_ = c;
    }
    if (alone.outcome != Outcome::kFail) {
      known_.clear();
      return false;
    }
    verdict_ = alone;
    property_ = find_property("reference");
    std::vector<Need> others;
    for (size_t i = 0; i < known_.size(); ++i) {
      Explained e = explains(known_[i], start_, verdict_, judged);
      if (e.answer == Explains::kYes) {
        count_under(known_names_[i]);
        return true;
      }
      if (e.answer == Explains::kPerhaps) continue;  // if it is that one, its reduction will end there
      start_ = std::move(e.c);
      verdict_ = std::move(e.verdict);
      others.push_back(known_[i]);
    }
    known_ = std::move(others);
    return false;
  }

  void count_under(const std::string& name) {
    FindingsFile all = read_findings(t_.options.dir);
    for (Finding& f : all.findings) {
      if (f.name != name) continue;
      ++f.count;
      f.crashes.push_back(crash_.id);
    }
    save([&] { write_findings(t_.options.dir, all); });
  }

  void reduce_it() {
    const std::string best_file = folder_ + "/best.attn.json";
    Case start = start_;
    Verdict verdict = verdict_;
    const Property* property = property_;
    if (const auto text = read_file(best_file); std::holds_alternative<std::string>(text)) {
      const auto best = decode_reproducer(std::get<std::string>(text));
      if (const auto* r = std::get_if<Reproducer>(&best)) {
        const Property* by = find_property(r->property);
        worker_->renew();
        const Verdict again = by ? judge(r->c, *by, *worker_, target_.calibration) : Verdict{};
        if (by != nullptr && again.outcome == Outcome::kFail &&
            reduction_key(target_.info, again) == reduction_key(target_.info, verdict)) {
          start = r->c;
          verdict = again;
          property = by;
        }
      }
    }
    ReduceOptions options;
    options.seconds =
        target_.record.canary ? std::min(kCanarySeconds, t_.options.reduce_seconds) : t_.options.reduce_seconds;
    if (finding_.repeats == Repeats::kSometimes) options.attempts = 3 * finding_.runs / finding_.failed;
    options.on_better = [&](const Case& best, const Verdict& v) {
      const Reproducer r = reproducer_of(best, v, target_.info, *worker_);
      save([&] { write_file(best_file, encode(r, best_file)); });
    };
    const auto began = Clock::now();
    const std::string key = reduction_key(target_.info, verdict);
    // Of several bugs a reduction would end in the simplest, which is known.
    const ShowsAnother another = [&](const Case& c, const Verdict& v) {
      if (v.property != "reference" || reduction_key(target_.info, v) != key) return false;
      const JudgeIt judged = [&](const Case& less) { return judged_alike(less, key); };
      return std::ranges::any_of(
          known_, [&](const Need& need) { return explains(need, c, v, judged).answer != Explains::kNo; });
    };
    Reduction reduction = reduce_failure(start, verdict, *property, *worker_, target_.calibration, options,
                                         known_.empty() ? ShowsAnother{} : another);
    // From a case that takes long less is tried than from its minimum.
    const double left = options.seconds - std::chrono::duration<double>(Clock::now() - began).count();
    if (reduction.complete && left > 1) {
      options.seconds = left;
      const Property* by = find_property(reduction.verdict.property);
      Reduction again = reduce_failure(reduction.minimal, reduction.verdict, by ? *by : *property, *worker_,
                                       target_.calibration, options, known_.empty() ? ShowsAnother{} : another);
      again.evaluations += reduction.evaluations;
      if (again.complete) reduction = std::move(again);
    }
    finding_.reduce_seconds = std::chrono::duration<double>(Clock::now() - began).count();
    finding_.reduced = reduction.complete;
    finding_.evaluations = reduction.evaluations;
    finding_.needs = std::move(reduction.needs);
    finding_.indifferent = std::move(reduction.indifferent);
    minimal_ = std::move(reduction.minimal);
    verdict_ = std::move(reduction.verdict);
    finding_.guess = guess_fault(minimal_, verdict_, finding_.needs, target_.record.lane).line();
  }

  void write() {
    Reproducer r = blind_ ? without_digests(minimal_, verdict_, target_.info)
                          : reproducer_of(minimal_, verdict_, target_.info, *worker_);
    if (verdict_.kind == Kind::kNone) r.kind = crash_.kind;
    r.needs = finding_.needs;
    r.indifferent = finding_.indifferent;
    const Reproducer general = without_lane(r, target_.folder);
    finding_.key = dedupe_key(general);
    finding_.name = reproducer_name(general);
    finding_.property = r.property;
    finding_.kind = r.kind;
    finding_.message = r.message;
    finding_.shape = r.shape;
    finding_.minimal = describe(minimal_);
    if (const KnownFailure* known = tolerated(t_.options.ledger, finding_.key, finding_.name))
      finding_.tolerated = known->reason;

    if (target_.record.canary) return write_canary(r);
    FindingsFile all = read_findings(t_.options.dir);
    auto& list = finding_.repeats == Repeats::kNever ? all.never_again : all.findings;
    const auto same = std::ranges::find(list, finding_.key, &Finding::key);
    if (same == list.end()) {
      write_files(r);
      list.push_back(finding_);
    } else {
      ++same->count;
      same->crashes.push_back(crash_.id);
      const std::string as = finding_.target + ": " + finding_.kind;
      if (as != same->target + ": " + same->kind && std::ranges::find(same->also, as) == same->also.end())
        same->also.push_back(as);
      if (!same->reduced && finding_.reduced) {
        std::swap(finding_.count, same->count);
        std::swap(finding_.crashes, same->crashes);
        std::swap(finding_.also, same->also);
        finding_.t = std::min(finding_.t, same->t);
        *same = finding_;
        write_files(r);
      }
    }
    // Ids whose folders are gone are needed no more.
    for (Finding& f : list)
      std::erase_if(f.crashes,
                    [&](const std::string& id) { return !fs::exists(t_.options.dir + "/crashing/" + id); });
    save([&] { write_findings(t_.options.dir, all); });
  }

  void write_files(const Reproducer& r) {
    const bool never = finding_.repeats == Repeats::kNever && !target_.record.canary;
    const std::string path = (never ? t_.options.dir + "/never_again" : out_) + "/" + finding_.name;
    const std::string trace = trace_.empty() ? "" : finding_.name + ".trace.jsonl";
    const CampaignHeader header = read_header(t_.options.dir).value_or(CampaignHeader{});
    save([&] {
      if (!trace.empty()) write_file(path + ".trace.jsonl", trace_);
      write_file(path + ".attn.json", encode(r, path + ".attn.json"));
      write_file(path + ".md", issue_text(finding_, r, {header, target_.record, trace}));
    });
  }

  void write_canary(const Reproducer& r) {
    write_files(r);
    std::vector<Canary> canaries = read_canaries(t_.options.dir);
    // The last session's.
    const auto mine = std::ranges::find(canaries.rbegin(), canaries.rend(), finding_.target, &Canary::target);
    if (mine == canaries.rend()) return;
    const std::string due = planted(target_.record.lane);
    mine->found = finding_.repeats != Repeats::kNever && r.kind == due;
    mine->finding = finding_.name;
    if (mine->found) {
      mine->message = "";
    } else if (finding_.repeats == Repeats::kNever) {
      mine->message = "it failed once and in no later run";
    } else {
      mine->message = "what was found is '" + r.kind + "', planted is '" + due + "'";
    }
    save([&] { write_canaries(t_.options.dir, canaries); });
  }

  void remove() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  const Triage& t_;
  const CampaignTarget& target_;
  const Crash& crash_;
  const std::string folder_, out_;
  const Property* property_;
  std::unique_ptr<Target> worker_;
  bool blind_ = false;  // it ended the process that looked: it is filed unseen
  Finding finding_;
  Case start_, minimal_;
  Verdict verdict_;
  std::vector<Need> known_;
  std::vector<std::string> known_names_;
  std::string trace_;
};

double likeness(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  size_t both = 0;
  for (const std::string& x : a) both += std::ranges::find(b, x) != b.end();
  const size_t any = a.size() + b.size() - both;
  return any == 0 ? 1 : static_cast<double>(both) / static_cast<double>(any);
}

Looked look(const Crash& crash) { return {crash.target, crash.kind, features(crash.c, 64, 64)}; }

}  // namespace

Reproducer without_lane(Reproducer r, const std::string& kernel) {
  r.kernel = kernel;
  r.c.lane = "plain";
  Problem& p = r.c.problem;
  if (p.dim_qk > p.dim_v) std::swap(p.dim_qk, p.dim_v);
  // Which of the inputs has the odd layout, and what makes its strides matter, is chance.
  bool odd_input = false;
  for (TensorId t : {TensorId::kQ, TensorId::kK, TensorId::kV}) {
    TensorLayout& layout = r.c.layout[static_cast<size_t>(t)];
    odd_input |= layout != TensorLayout{};
    layout = {};
  }
  if (!odd_input) return r;
  r.c.layout[static_cast<size_t>(TensorId::kV)].row_gap = 1;
  p.batch = p.heads_q = p.heads_kv = p.seq_q = p.seq_k = 1;
  return r;
}

size_t choose_crash(const std::vector<Crash>& crashes, const std::vector<Looked>& looked) {
  size_t best = 0, best_attention = ~size_t{0};
  double best_likeness = 2;
  for (size_t i = 0; i < crashes.size(); ++i) {
    const Looked mine = look(crashes[i]);
    size_t attention = 0;
    double most = 0;
    for (const Looked& other : looked) {
      if (other.target != mine.target || other.kind != mine.kind) continue;
      ++attention;
      most = std::max(most, likeness(mine.features, other.features));
    }
    if (attention < best_attention || (attention == best_attention && most < best_likeness)) {
      best = i;
      best_attention = attention;
      best_likeness = most;
    }
  }
  return best;
}

void triage(const Triage& t) {
  std::vector<Looked> looked;
  while (!t.board.finish) {
    std::vector<Crash> crashes = read_crashes(t.options.dir);
    // Of a kernel that this session does not run: they wait for one that does.
    std::erase_if(crashes, [&](const Crash& crash) {
      return std::ranges::none_of(t.targets,
                                  [&](const CampaignTarget& x) { return x.record.name == crash.target; });
    });
    if (crashes.empty()) return;
    const auto is_canary = [&](const Crash& crash) { return crash.target.starts_with("canary."); };
    const auto canary = std::ranges::find_if(crashes, is_canary);
    const Crash& crash = canary != crashes.end() ? *canary : crashes[choose_crash(crashes, looked)];
    const auto target =
        std::ranges::find_if(t.targets, [&](const CampaignTarget& x) { return x.record.name == crash.target; });
    OneCrash(t, *target, crash).run();
    looked.push_back(look(crash));
    auto& kinds = t.board.waiting[target - t.targets.begin()];
    for (int kind = 0; kind < kKinds; ++kind) {
      if (to_string(static_cast<Kind>(kind)) == crash.kind && kinds[kind] > 0) --kinds[kind];
    }
  }
}

}  // namespace attnfuzz
