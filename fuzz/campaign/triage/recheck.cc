#include "fuzz/campaign/triage/recheck.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/processes.h"
#include "fuzz/campaign/store/jobs/journal.h"
#include "fuzz/campaign/triage/files/sequence_files.h"
#include "fuzz/campaign/triage/sequence_crash.h"
#include "properties/memory/layout.h"
#include "properties/sequences/run/relations.h"
#include "properties/sequences/session/codec.h"
#include "reference/call/backend.h"

namespace attnfuzz {
namespace {

using Answer = Recheck::Answer;

constexpr int kMostRuns = 10;

std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// The target on which a failure was found. A plug-in may have moved since.
const CampaignTarget* target_of(const std::string& kernel, const std::string& backend,
                                const std::string& build_kind, const std::vector<CampaignTarget>& targets) {
  for (const CampaignTarget& target : targets) {
    if (target.record.seeded_bug || backend_name(target.info.backend) != backend ||
        target.record.build_kind != build_kind)
      continue;
    if (file_name(command_name(target.info)) == file_name(kernel)) return &target;
  }
  return nullptr;
}

// The cases that ran before a finding that fails only after others.
std::vector<Journaled> trace_beside(const std::string& reproducer) {
  constexpr std::string_view kEnding = ".attn.json";
  if (!reproducer.ends_with(kEnding)) return {};
  const auto text = read_file(reproducer.substr(0, reproducer.size() - kEnding.size()) + ".trace.jsonl");
  if (!std::holds_alternative<std::string>(text)) return {};
  return parse_trace(std::get<std::string>(text));
}

bool same_bytes(const Reproducer& r, Target& worker) {
  const auto digests = LaidOut(r.c, worker.arena()).digests();
  for (size_t i = 0; i < digests.size(); ++i) {
    if (r.digests[i] != 0 && r.digests[i] != digests[i]) return false;
  }
  return true;
}

char letter(Answer answer) { return "fh?"[static_cast<int>(answer)]; }

}  // namespace

const char* to_string(Answer answer) {
  switch (answer) {
    case Answer::kFails:
      return "fails";
    case Answer::kHolds:
      return "passes";
    case Answer::kUnknown:
      return "not known";
  }
  return "";
}

namespace {

// Makes the sentences of a recheck.
class Answers {
 public:
  explicit Answers(const KnownFailure& known) : key_(known.key), subject_("tolerated " + known.key + " ") {}
  Recheck unknown(const std::string& why) const {
    return {key_, Answer::kUnknown, subject_ + "was not looked at: " + why};
  }
  Recheck not_here(const std::string& kernel, const std::string& backend, const std::string& build_kind) const {
    return unknown("its kernel, " + kernel + " (" + backend + ", " + build_kind + "), is not in this session");
  }
  Recheck fails(const std::string& kind, const std::string& due) const {
    if (kind == due) return {key_, Answer::kFails, ""};
    return {key_, Answer::kFails,
            subject_ + "fails in another way: '" + kind + "', its reproducer says '" + due + "'"};
  }
  Recheck holds(const std::string& why) const {
    return {key_, Answer::kHolds, subject_ + "no longer fails: take it out of the ledger (" + why + ")"};
  }

 private:
  const std::string key_, subject_;
};

std::string passed_always() {
  return "passed in " + std::to_string(kMostRuns) + " of " + std::to_string(kMostRuns) + " runs";
}

// The call that failed, SessionResult::call, by the file, or by the key or the name in the ledger; empty if
// none says it.
std::string failing_call(const KnownFailure& known, const sequences::SessionFile& file,
                         const std::string& folder) {
  if (!file.found.call.empty()) return file.found.call;
  std::vector<std::string> calls = {"copy_pages",     "forward", "forward-first",
                                    "forward-others", "merge",   "relation"};
  calls.insert(calls.end(), std::begin(sequences::kVerbNames), std::end(sequences::kVerbNames));
  for (const std::string& call : calls) {
    Finding of;
    of.kind = file.found.kind;
    of.key = sequences_key(folder, file.chain, of.kind, call);
    if (known.key == of.key || known.key == sequences_name(folder, of)) return call;
  }
  return "";
}

Recheck recheck_sequences(const KnownFailure& known, const std::string& text, const Ledger& ledger,
                          const std::vector<CampaignTarget>& targets) {
  const Answers answers(known);
  const auto read = sequences::decode_session(text);
  if (const auto* error = std::get_if<DecodeError>(&read))
    return answers.unknown(known.reproducer + ": " + error->message);
  const auto& file = std::get<sequences::SessionFile>(read);
  const auto& [chain, found] = file;
  if (found.kernels.size() != 1 || found.backend.empty() || found.build.empty())
    return answers.unknown(known.reproducer + " does not say on which kernel, back end and build it failed");
  const CampaignTarget* target = target_of(found.kernels[0], found.backend, found.build, targets);
  if (target == nullptr) return answers.not_here(found.kernels[0], found.backend, found.build);
  const TargetRecord& record = target->record;
  if (quarantines_some(ledger, record.kernel, record.backend, record.build_kind) != nullptr)
    return answers.unknown("the ledger quarantines cases of its kernel");
  std::string error;
  const std::unique_ptr<Target> worker = target->open(&error);
  if (worker == nullptr) return answers.unknown(error);
  const sequences::SessionTarget one = {worker.get(), target->calibration};
  const sequences::SessionTargets kernels(std::span(&one, 1));
  const std::string failing = failing_call(known, file, target->folder);
  uint64_t calls = 0;
  std::string left_out;
  for (int run = 0; run < kMostRuns; ++run) {
    const sequences::SessionResult result = check_chain(chain, kernels);
    if (result.verdict.outcome == Outcome::kFail)
      return answers.fails(to_string(result.verdict.kind), found.kind);
    calls += result.calls;
    if (left_out.empty()) left_out = left_out_of(result, failing);
  }
  if (calls == 0) return answers.unknown("no call of it is made any more");
  if (!left_out.empty()) return answers.unknown("the call that failed is not made any more: " + left_out);
  return answers.holds(passed_always());
}

}  // namespace

Recheck recheck(const KnownFailure& known, const Ledger& ledger, const std::vector<CampaignTarget>& targets) {
  const Answers answers(known);
  const auto text = read_file(known.reproducer);
  if (const auto* of = std::get_if<std::string>(&text); of != nullptr && sequences::holds_session(*of))
    return recheck_sequences(known, *of, ledger, targets);
  const auto read = read_reproducer(known.reproducer);
  if (const auto* error = std::get_if<DecodeError>(&read)) return answers.unknown(error->message);
  const Reproducer& r = std::get<Reproducer>(read);
  const Property* property = find_property(r.property);
  if (const auto why = illegal(r.c))
    return answers.unknown(known.reproducer + " holds a case that cannot be run: " + *why);
  if (property == nullptr)
    return answers.unknown(known.reproducer + ": there is no property '" + r.property + "'");
  const std::string backend = backend_name(r.backend);
  const CampaignTarget* target = target_of(r.kernel, backend, r.c.build_kind, targets);
  if (target == nullptr) return answers.not_here(r.kernel, backend, r.c.build_kind);
  std::string error;
  const std::unique_ptr<Target> worker = target->open(&error);
  if (worker == nullptr) return answers.unknown(error);
  if (std::ranges::any_of(ledger.known, &KnownFailure::quarantined)) {
    const GeneratorConfig config = config_for(*worker, CheckOptions{});
    const TargetRecord& record = target->record;
    if (quarantined(ledger, r.c,
                    {record.kernel, record.backend, record.build_kind, config.tiles_q[0], config.tiles_k[0]}))
      return answers.unknown("the ledger quarantines its case");
  }
  if (!same_bytes(r, *worker))
    return answers.unknown(known.reproducer +
                           " comes from another version of the fills: find the failure again");
  const std::vector<Journaled> before = trace_beside(known.reproducer);
  Verdict verdict;
  for (int run = 0; run < kMostRuns; ++run) {
    worker->renew();
    for (const Journaled& entry : before) {
      const Property* by = find_property(entry.property);
      if (by != nullptr && !(entry.c == r.c)) judge(entry.c, *by, *worker, target->calibration);
    }
    verdict = judge(r.c, *property, *worker, target->calibration);
    if (verdict.outcome == Outcome::kFail) return answers.fails(to_string(verdict.kind), r.kind);
  }
  if (verdict.outcome == Outcome::kNotJudged)
    return answers.unknown("its case can no longer be judged: " + verdict.message);
  return answers.holds(verdict.outcome == Outcome::kRefused ? "its case is refused: " + verdict.message
                                                            : passed_always());
}

Rechecks::Rechecks(const CampaignOptions& options, const std::vector<CampaignTarget>& targets, JobSlot& slot,
                   const std::string& gpu)
    : options_(options), targets_(targets), slot_(slot), gpu_(gpu) {
  for (const KnownFailure& known : options.ledger.known) {
    if (!known.quarantined && !known.reproducer.empty()) due_.push_back(&known);
  }
}

Rechecks::~Rechecks() {
  if (child_ >= 0) end_child(child_);
}

// The child's answer: a letter and a sentence.
Recheck Rechecks::answer_of(const std::string& ending) const {
  const std::string name = due_[next_ - 1]->key, said = slot_.message;
  for (const Answer answer : {Answer::kFails, Answer::kHolds, Answer::kUnknown}) {
    if (ending.empty() && said.starts_with(letter(answer))) return {name, answer, said.substr(1)};
  }
  return {name, Answer::kUnknown,
          "tolerated " + name + " was not looked at: " + (said.empty() ? ending : said)};
}

std::optional<Recheck> Rechecks::step() {
  std::optional<Recheck> result;
  if (child_ >= 0) {
    const auto ending = ended(child_);
    if (ending) {
      result = answer_of(ending->how);
    } else if (seconds_since(started_) > options_.stuck_seconds) {
      end_child(child_);
      slot_.message[0] = 0;
      result =
          answer_of("it took longer than " + std::to_string(static_cast<int>(options_.stuck_seconds)) + " s");
    } else {
      return std::nullopt;
    }
    child_ = -1;
  }
  if (next_ == due_.size()) return result;
  const KnownFailure& known = *due_[next_++];
  slot_.message[0] = 0;
  started_ = Clock::now();
  child_ = start_child(
      [&] {
        if (!gpu_.empty()) setenv("CUDA_VISIBLE_DEVICES", gpu_.c_str(), 1);
        const Recheck done = recheck(known, options_.ledger, targets_);
        std::snprintf(slot_.message, sizeof slot_.message, "%c%s", letter(done.answer), done.text.c_str());
      },
      slot_.message, sizeof slot_.message);
  return result;
}

std::vector<Recheck> Rechecks::give_up() {
  std::vector<Recheck> left;
  if (child_ >= 0) {
    end_child(child_);
    child_ = -1;
    --next_;
  }
  for (; next_ < due_.size(); ++next_)
    left.push_back({due_[next_]->key, Answer::kUnknown,
                    "tolerated " + due_[next_]->key + " was not looked at: the session ended before"});
  return left;
}

}  // namespace attnfuzz
