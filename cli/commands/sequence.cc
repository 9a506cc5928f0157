// attnfuzz sequence: runs sequences of calls on one paged cache, judges every call, and reduces a failure.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "base/printable.h"
#include "base/processes.h"
#include "base/random.h"
#include "base/threads.h"
#include "cli/open/open_kernel.h"
#include "cli/options/again.h"
#include "cli/options/help.h"
#include "cli/terminal/status_line.h"
#include "cli/terminal/terminal.h"
#include "fuzz/check/counts/enough.h"
#include "properties/case/words.h"
#include "properties/sequences/draw/draw.h"
#include "properties/sequences/reduce/chain.h"
#include "properties/sequences/run/relations.h"
#include "properties/sequences/session/codec.h"
#include "properties/sequences/session/story.h"

namespace attnfuzz::sequences {
namespace {

struct SequenceArguments {
  std::vector<std::string> kernels;
  std::string file;  // --replay
  uint64_t cases = 200, seed = 1;
  int jobs = 0;
  double reduce_seconds = 60;
  std::string out = "found";
  bool verbose = false;
  TargetOptions target;
};

// The opened kernels, and the calls that each can make.
struct OpenedKernels {
  std::vector<std::unique_ptr<Target>> opened;
  SessionTargets targets;
};

// Totals over the sessions of a run.
struct Sums {
  uint64_t sessions = 0, steps = 0, calls = 0, bounded = 0;
  CallCounts counts;
  double worst = 0;
  std::map<std::string, uint64_t> left_out;

  // The totals of one session.
  static Sums of(const Session& session, const SessionResult& result) {
    return {
        1, session.steps.size(), result.calls, result.bounded, result.counts, result.worst, result.left_out};
  }
  void add(const Sums& other) {
    sessions += other.sessions, steps += other.steps;
    calls += other.calls, bounded += other.bounded;
    sequences::add(other.counts, counts);
    worst = std::max(worst, other.worst);
    for (const auto& [why, n] : other.left_out) left_out[why] += n;
  }
};

OpenedKernels open_kernels(const SequenceArguments& arguments, bool aloud) {
  OpenedKernels kernels;
  std::vector<SessionTarget> all;
  TargetOptions options = arguments.target;
  options.classes = true;
  for (const std::string& name : arguments.kernels) {
    for (const KernelLibrary& library : libraries_of(name, arguments.target)) {
      kernels.opened.push_back(open(library, options));
      Target& target = *kernels.opened.back();
      if (aloud) say_identity(identity_line(target.info(), arguments.target), arguments.verbose);
      all.push_back({&target, calibration_for(target.info(), arguments.target)});
    }
  }
  kernels.targets = SessionTargets(all);
  if (const SessionTarget* own = kernels.targets.own(); own != nullptr && all.size() > 1)
    throw UserError(
        printable(own->target->info().name) +
        ": a class with memory of its own must be named alone: other kernels cannot see what it keeps");
  for (size_t n = 0; n < all.size(); ++n) {
    if (kernels.targets.never_called(n))
      throw UserError(printable(all[n].target->info().name) +
                      ": this kernel neither appends to pages, copies pages, attends over them nor merges");
  }
  if (kernels.targets.empty())
    throw UserError(
        "none of these kernels appends to pages, copies pages or attends over them: name one that does, "
        "for example cache or splitk");
  return kernels;
}

std::string left_out_lines(const std::map<std::string, uint64_t>& left_out, bool all) {
  constexpr size_t kMost = 4;
  std::string text;
  size_t shown = 0;
  uint64_t hidden = 0;  // the sum of the counts that are not printed
  for (const auto& [why, n] : left_out) {
    if (all || shown++ < kMost)
      text += fmt::format("  not run: {} ({})\n", printable(why), n);
    else
      hidden += n;
  }
  if (shown > kMost)
    text += fmt::format("  not run: for {} more reasons ({}); -v prints them\n", shown - kMost, hidden);
  return text;
}

// A session as text, with at most `most` steps. `failed`: the step at which it failed.
std::string lines_of(const Session& session, std::optional<size_t> failed, size_t most) {
  std::string text = fmt::format("  {}\n", describe(session.setup));
  const std::vector<std::string> lines = story(session);
  const size_t first = lines.size() > most ? lines.size() - most : 0;
  if (first > 0) text += fmt::format("    ... {} steps before; -v prints them\n", first);
  for (size_t n = first; n < lines.size(); ++n)
    text += fmt::format("  {} {}\n", n == failed ? ">" : " ", lines[n]);
  if (session.relation != Relation::kNone)
    text += fmt::format("  relation: {}\n", kRelationNames[static_cast<size_t>(session.relation)]);
  return text;
}

// Prints the failure, without -v in at most 25 lines.
void tell(const Chain& chain, const SessionResult& result, const std::string& where, const std::string& replay,
          bool verbose) {
  constexpr size_t kMostSteps = 12, kMostBefore = 4;
  const std::string who = result.kernel.empty() ? result.call : result.call + " of " + result.kernel;
  std::string text = fmt::format("FAIL ({}): {}\n", who, printable(result.verdict.message));
  const size_t all = std::numeric_limits<size_t>::max();
  if (!chain.before.empty() && (verbose || chain.before.size() == 1)) {
    for (const Session& session : chain.before)
      text += "  before, in the same process:\n" + lines_of(session, std::nullopt, verbose ? all : kMostBefore);
    text += "  then:\n";
  } else if (!chain.before.empty()) {
    text += fmt::format("  after {} sequences in the same process; -v prints them\n", chain.before.size());
  }
  const auto failed = result.second ? std::nullopt : std::optional(result.step);
  text += lines_of(chain.last, failed, verbose ? all : kMostSteps);
  if (!where.empty()) text += fmt::format("  {}\n", where);
  if (!replay.empty()) text += fmt::format("  replay: {}\n", replay);
  print(text);
}

// Returns "nothing was judged of splitk, most calls of the operation merge of mine were not judged: 3 of 40
// were". Empty if enough calls of each kernel, and of each operation that was called, were judged.
std::string unjudged(const OpenedKernels& kernels, const Sums& sums) {
  std::vector<std::string> parts;
  for (size_t n = 0; n < kernels.opened.size(); ++n) {
    const std::string name = printable(kernels.opened[n]->info().name);
    std::vector<std::string> operations;
    CallCount all;
    for (const auto& [call, count] : sums.counts) {
      if (call.first != n) continue;
      all.asked += count.asked, all.judged += count.judged;
      const std::string why = too_few_calls_judged(count.asked, count.judged,
                                                   fmt::format("the operation {} of {}", call.second, name));
      if (!why.empty()) operations.push_back(why);
    }
    const std::string why = too_few_calls_judged(all.asked, all.judged, name);
    if (all.judged == 0 || (operations.empty() && !why.empty())) operations = {why};
    parts.insert(parts.end(), operations.begin(), operations.end());
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Prints the totals. `missing`: what was not judged; if it is not empty, the run does not pass.
Exit conclude(const std::string& what, const Sums& sums, const std::string& missing, double seconds, bool all) {
  std::string text =
      fmt::format("{}{} steps, {} calls: {}; largest error/bound {:.2f} ({:.1f} s)\n", what, sums.steps,
                  sums.calls, missing.empty() ? "passed" : missing, sums.worst, seconds);
  if (sums.bounded > 0) {
    text += fmt::format(
        "  compared within the bound, not bit for bit: {} attends of relations, whose plans do not promise "
        "equal bits\n",
        sums.bounded);
  }
  print(text + left_out_lines(sums.left_out, all));
  return missing.empty() ? kPassed : kFound;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool judged(const SessionResult& result) {
  return std::ranges::any_of(result.counts, [](const auto& of) { return of.second.judged > 0; });
}

// Why the replay of a file does not pass; empty if it does. A file need not have calls for every kernel. If a
// method of a class with memory of its own raised, the file may have no attend; it passes if all its steps are
// made. If the file is of a failure, the call that failed must be made.
std::string why_no_pass(const SessionFile& file, const SessionResult& result) {
  const Session& session = file.chain.last;
  if (!file.found.kind.empty()) {
    const std::string left_out = left_out_of(result, file.found.call);
    if (!left_out.empty())
      return "the call that failed " + std::string(file.found.call.empty() ? "may not have been" : "was not") +
             " made: " + left_out;
  }
  if (judged(result)) return "";
  if (result.calls + result.told == 0) return "no call was made, so nothing was judged";
  if (!result.attends.empty()) return "no attend was made, so nothing was judged";
  return result.step == session.steps.size() ? "" : "a step was refused, and nothing was judged";
}

Exit replay_session(const SequenceArguments& arguments, const OpenedKernels& kernels) {
  const auto read = decode_session(file_text(arguments.file));
  if (const auto* error = std::get_if<DecodeError>(&read))
    throw UserError(arguments.file + ": " + error->message);
  const auto& file = std::get<SessionFile>(read);
  const Chain& chain = file.chain;
  const auto start = std::chrono::steady_clock::now();
  const SessionResult result = check_chain(chain, kernels.targets);
  if (result.verdict.outcome == Outcome::kFail) {
    tell(chain, result, "replayed from " + arguments.file, "", arguments.verbose);
    return kFound;
  }
  const std::string missing = printable(why_no_pass(file, result));
  const Exit status = conclude(printable(arguments.file) + ": ", Sums::of(chain.last, result), missing,
                               seconds_since(start), arguments.verbose);
  if (missing.empty() && !judged(result))
    print("  no output to judge: every method returned, and none raised\n");
  return status;
}

class SequenceCheck {
 public:
  SequenceCheck(const SequenceArguments& arguments, const CLI::App& command)
      : arguments_(arguments), command_(command) {
    kernels_.push_back(open_kernels(arguments, true));
    features_ = common_features(kernels_.front().targets);
    domains_ = domains_of(kernels_.front().targets);
  }

  Exit run() {
    if (!arguments_.file.empty()) return replay_session(arguments_, kernels_.front());
    check_all();
    if (failure_) return report_failure();
    const Exit status = conclude(fmt::format("{}: {} sequences, ", names(), sums_.sessions), sums_,
                                 interrupts_.came() ? "interrupted" : unjudged(kernels_.front(), sums_),
                                 seconds_, arguments_.verbose);
    if (!interrupts_.came()) return status;
    std::fprintf(stderr, "attnfuzz: interrupted by SIG%s: this is no pass\n",
                 sigabbrev_np(interrupts_.signal()));
    return static_cast<Exit>(128 + interrupts_.signal());
  }

 private:
  // Sessions that run in one process of each library. Which sessions share a process depends only on their
  // numbers, not on the number of jobs, so a failure is the same with any number of jobs.
  static constexpr uint64_t kOfProcess = 50;

  struct Failure {
    uint64_t index;
    Session session;
    SessionResult result;
  };

  Session session(uint64_t n) const { return draw_session(hash64(arguments_.seed) + n, features_, domains_); }

  int jobs() const {
    int usual = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    // Each worker opens a GPU context, which takes long.
    if (kernels_.front().opened.front()->info().backend == ATTN_CUDA) usual = std::min(usual, 2);
    const uint64_t blocks = (arguments_.cases + kOfProcess - 1) / kOfProcess;
    return static_cast<int>(
        std::min(static_cast<uint64_t>(arguments_.jobs == 0 ? usual : arguments_.jobs), blocks));
  }

  // Each job has kernels of its own, and takes the next block of sessions that share a process.
  void check_all() {
    const int count = jobs();
    while (static_cast<int>(kernels_.size()) < count) kernels_.push_back(open_kernels(arguments_, false));
    start_ = std::chrono::steady_clock::now();
    in_threads(count, [&](int job) {
      try {
        while (const auto first = next()) check_block(*first, kernels_[static_cast<size_t>(job)].targets);
      } catch (...) {
        last_ = 0;
        throw;
      }
    });
    line_.clear();
    seconds_ = seconds_since(start_);
  }

  // The number of the first session of a block; nothing if none is left.
  std::optional<uint64_t> next() {
    const std::lock_guard lock(mutex_);
    if (interrupts_.came()) last_ = 0;
    if (next_ >= last_) return std::nullopt;
    line_.show(progress_line("sequence", next_, arguments_.cases, seconds_since(start_), 0));
    return std::exchange(next_, next_ + kOfProcess);
  }

  void check_block(uint64_t first, const SessionTargets& targets) {
    Sums sums;
    targets.renew();
    for (uint64_t n = first; n < std::min(first + kOfProcess, last_.load()); ++n) {
      const Session drawn = session(n);
      SessionResult result = check_session(drawn, targets);
      sums.add(Sums::of(drawn, result));
      if (result.verdict.outcome != Outcome::kFail) continue;
      const std::lock_guard lock(mutex_);
      if (failure_ && failure_->index < n) return;
      failure_ = Failure{n, drawn, std::move(result)};
      last_ = std::min(last_.load(), n);  // sessions before this one still run: they may fail too
      return;
    }
    const std::lock_guard lock(mutex_);
    sums_.add(sums);
  }

  ReducedChain reduce(const Chain& chain, const SessionResult& failed) const {
    const SessionTargets& targets = kernels_.front().targets;
    return reduce_chain(
        chain, failed, targets, [&](const Chain& c) { return check_chain(c, targets); },
        arguments_.reduce_seconds);
  }

  // A replay neither draws nor reduces, so the options for that are left out.
  std::string replay_line(const std::string& path) const {
    return again_line(command_, {{"--replay", path}},
                      {"--cases", "--seed", "--jobs", "--out", "--reduce-seconds"});
  }

  Exit report_failure() {
    const auto& [index, found, result] = *failure_;
    Chain chain = {found, {}};
    for (uint64_t n = index - index % kOfProcess; n < index; ++n) chain.before.push_back(session(n));
    const ReducedChain small = reduce(chain, result);
    std::filesystem::create_directories(arguments_.out);
    const std::string path =
        fmt::format("{}/calls-{}-{}-{}.calls.json", arguments_.out, small.result.call, arguments_.seed, index);
    write_file(path, encode(small.chain, {.kernels = arguments_.kernels,
                                          .kind = to_string(small.result.verdict.kind),
                                          .message = small.result.verdict.message,
                                          .call = small.result.call}));
    std::string where =
        fmt::format("found in sequence {} of seed {} ({} steps), ", index, arguments_.seed, found.steps.size());
    where += small.again ? fmt::format("reduced in {} to {} on {}", several(small.evaluations, "evaluation"),
                                       several(small.steps(), "step"), several(small.pages(), "page"))
                         : "which did not fail again in a new process";
    tell(small.chain, small.result, where, replay_line(path), arguments_.verbose);
    return kFound;
  }

  std::string names() const {
    std::string names;
    for (const auto& target : kernels_.front().opened)
      names += (names.empty() ? "" : ", ") + printable(target->info().name);
    return names;
  }

  const SequenceArguments& arguments_;
  const CLI::App& command_;
  const Interrupts interrupts_;
  std::vector<OpenedKernels> kernels_;  // one for each job
  uint64_t features_ = 0;
  std::vector<attn_domain> domains_;
  std::chrono::steady_clock::time_point start_;
  double seconds_ = 0;
  StatusLine line_;

  std::mutex mutex_;  // guards all members below
  uint64_t next_ = 0;
  std::atomic<uint64_t> last_ = arguments_.cases;  // sessions from this number on need not run
  std::optional<Failure> failure_;                 // the failure of the lowest number
  Sums sums_;
};

}  // namespace
}  // namespace attnfuzz::sequences

namespace attnfuzz {

void add_sequence(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "sequence", "Runs sequences of calls on a paged cache, and judges every call and the whole cache");
  const auto arguments = std::make_shared<sequences::SequenceArguments>();
  command
      ->add_option("kernels", arguments->kernels,
                   "kernels by name, plug-ins by path, or targets in Python, that share the cache")
      ->required();
  const auto cases = command->add_option("--cases", arguments->cases, "sequences to run")
                         ->check(CLI::Range(uint64_t{1}, kMostCounted))
                         ->capture_default_str();
  const auto seed = command->add_option("--seed", arguments->seed, "seed of the draw")
                        ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 20))
                        ->capture_default_str();
  const auto jobs = command
                        ->add_option("--jobs", arguments->jobs,
                                     "threads, each with workers of its own; 0: one a core, or two on a GPU")
                        ->check(CLI::Range(0, 1024))
                        ->capture_default_str();
  const auto out =
      command->add_option("--out", arguments->out, "folder for files of failures")->capture_default_str();
  const auto replay = command->add_option("--replay", arguments->file, "run the sequence of this file instead");
  const auto reduce =
      command->add_option("--reduce-seconds", arguments->reduce_seconds, "time to reduce a failure")
          ->check(CLI::Range(0.0, 86400.0))
          ->capture_default_str();
  for (CLI::Option* drawn : {cases, seed, jobs, out, reduce}) replay->excludes(drawn);
  add_verbose_flag(*command, arguments->verbose, "what the libraries are, and all lines of a failure");
  add_target_options(*command, arguments->target);
  add_footer(*command, "attnfuzz sequence cache splitk --cases 1000",
             {"all of them passed",
              "one failed, or too few calls of a kernel or of an operation were judged: none, or less than "
              "half of 20 or more",
              kBadUseStatus});
  command->callback([&action, arguments, command] {
    action = [arguments, command] { return sequences::SequenceCheck(*arguments, *command).run(); };
  });
}

}  // namespace attnfuzz
