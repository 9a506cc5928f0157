// attnfuzz sequence: runs sequences of calls on one paged cache, judges every call, and reduces a failure.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "base/printable.h"
#include "base/random.h"
#include "cli/open/open_kernel.h"
#include "cli/options/help.h"
#include "cli/terminal/terminal.h"
#include "properties/sequences/codec.h"
#include "properties/sequences/draw.h"
#include "properties/sequences/reduce.h"
#include "properties/sequences/relations.h"
#include "properties/sequences/story.h"

namespace attnfuzz::sequences {
namespace {

struct SequenceArguments {
  std::vector<std::string> kernels;
  std::string file;  // --replay
  uint64_t cases = 200, seed = 1;
  double reduce_seconds = 60;
  std::string out = "found";
  bool verbose = false;
  TargetOptions target;
};

// The opened kernels, and which calls they can make.
struct Cast {
  std::vector<std::unique_ptr<Target>> opened;
  SessionTargets targets;
};

// What the sessions of a run come to.
struct Sums {
  uint64_t sessions = 0, steps = 0, calls = 0;
  double worst = 0;
  std::map<std::string, uint64_t> left_out;

  void add(const Session& session, const SessionResult& result) {
    ++sessions;
    steps += session.steps.size();
    calls += result.calls;
    worst = std::max(worst, result.worst);
    for (const auto& [why, n] : result.left_out) left_out[why] += n;
  }
};

Cast open_cast(const SequenceArguments& arguments) {
  Cast cast;
  std::vector<SessionTarget> all;
  for (const std::string& name : arguments.kernels) {
    for (const KernelLibrary& library : libraries_of(name, arguments.target)) {
      cast.opened.push_back(open(library, arguments.target));
      Target& target = *cast.opened.back();
      say_identity(identity_line(target.info(), arguments.target), arguments.verbose);
      all.push_back({&target, calibration_for(target.info(), arguments.target)});
    }
  }
  cast.targets = SessionTargets(all);
  if (cast.targets.empty())
    throw UserError("none of these kernels appends to pages, copies pages or attends over them: name one that does, "
                    "for example cache or splitk");
  return cast;
}

std::string left_out_lines(const std::map<std::string, uint64_t>& left_out, bool all) {
  constexpr size_t kMost = 4;
  std::string text;
  size_t shown = 0;
  for (const auto& [why, n] : left_out) {
    if (all || shown++ < kMost) text += fmt::format("  not run: {} ({})\n", printable(why), n);
  }
  if (shown > kMost) text += fmt::format("  not run: {} more reasons; -v prints them\n", shown - kMost);
  return text;
}

// The failure in at most 25 lines.
void tell(const Session& session, const SessionResult& result, const std::string& where, const std::string& replay,
          bool verbose) {
  constexpr size_t kMostSteps = 14;
  const std::string who = result.kernel.empty() ? result.call : result.call + " of " + result.kernel;
  std::string text = fmt::format("FAIL ({}): {}\n", who, printable(result.verdict.message));
  text += fmt::format("  {}\n", describe(session.setup));
  const std::vector<std::string> lines = story(session);
  const size_t first = verbose || lines.size() <= kMostSteps ? 0 : lines.size() - kMostSteps;
  if (first > 0) text += fmt::format("    ... {} steps before; -v prints them\n", first);
  for (size_t n = first; n < lines.size(); ++n)
    text += fmt::format("  {} {}\n", n == result.step ? ">" : " ", lines[n]);
  if (session.relation != Relation::kNone)
    text += fmt::format("  relation: {}\n", kRelationNames[static_cast<size_t>(session.relation)]);
  if (!where.empty()) text += fmt::format("  {}\n", where);
  if (!replay.empty()) text += fmt::format("  replay: {}\n", replay);
  print(text);
}

const char* verdict_of(uint64_t calls) { return calls > 0 ? "passed" : "no call was made, so nothing was judged"; }

Exit replay_session(const SequenceArguments& arguments, Cast& cast) {
  const auto read = decode_session(file_text(arguments.file));
  if (const auto* error = std::get_if<DecodeError>(&read)) throw UserError(arguments.file + ": " + error->message);
  const Session& session = std::get<SessionFile>(read).session;
  const SessionResult result = check_session(session, cast.targets);
  if (result.verdict.outcome == Outcome::kFail) {
    tell(session, result, "replayed from " + arguments.file, "", arguments.verbose);
    return kFound;
  }
  print(fmt::format("{}: {} steps, {} calls: {}\n", arguments.file, session.steps.size(), result.calls,
                    verdict_of(result.calls)) +
        left_out_lines(result.left_out, arguments.verbose));
  return result.calls > 0 ? kPassed : kFound;
}

Exit report_failure(const SequenceArguments& arguments, Cast& cast, uint64_t index, const Session& session,
                    const SessionResult& result) {
  const ReducedSession small = reduce_session(
      session, result, [&](const Session& s) { return check_session(s, cast.targets); }, arguments.reduce_seconds);
  const FoundSession found = {arguments.kernels, to_string(small.result.verdict.kind), small.result.verdict.message};
  std::filesystem::create_directories(arguments.out);
  const std::string path = fmt::format("{}/calls-{}-{}-{}.calls.json", arguments.out, small.result.call,
                                       arguments.seed, index);
  write_file(path, encode(small.session, found));
  std::string replay = "attnfuzz sequence --replay " + path;
  for (const std::string& kernel : arguments.kernels) replay += " " + kernel;
  if (!arguments.target.build_kind.empty()) replay += " --build " + arguments.target.build_kind;
  tell(small.session, small.result,
       fmt::format("found in sequence {} of seed {} ({} steps), reduced in {} evaluations to {} steps on {} pages",
                   index, arguments.seed, session.steps.size(), small.evaluations, small.session.steps.size(),
                   pages_used(small.session)),
       replay, arguments.verbose);
  return kFound;
}

Exit run_sequence(const SequenceArguments& arguments) {
  Cast cast = open_cast(arguments);
  if (!arguments.file.empty()) return replay_session(arguments, cast);
  const auto start = std::chrono::steady_clock::now();
  const uint64_t features = common_features(cast.targets);
  Sums sums;
  for (uint64_t n = 0; n < arguments.cases; ++n) {
    const Session session = draw_session(hash64(arguments.seed) + n, features);
    const SessionResult result = check_session(session, cast.targets);
    sums.add(session, result);
    if (result.verdict.outcome == Outcome::kFail) return report_failure(arguments, cast, n, session, result);
  }
  std::string names;
  for (const auto& target : cast.opened) names += (names.empty() ? "" : ", ") + target->info().name;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print(fmt::format("{}: {} sequences, {} steps, {} calls: {}; largest error/bound {:.2f} ({:.1f} s)\n", names,
                    sums.sessions, sums.steps, sums.calls, verdict_of(sums.calls), sums.worst, seconds) +
        left_out_lines(sums.left_out, arguments.verbose));
  return sums.calls > 0 ? kPassed : kFound;
}

}  // namespace
}  // namespace attnfuzz::sequences

namespace attnfuzz {

void add_sequence(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "sequence", "Runs sequences of calls on a paged cache, and judges every call and the whole cache");
  const auto arguments = std::make_shared<sequences::SequenceArguments>();
  command->add_option("kernels", arguments->kernels, "kernels by name, or plug-ins by path, that share the cache")
      ->required();
  command->add_option("--cases", arguments->cases, "sequences to run")
      ->check(CLI::Range(uint64_t{1}, kMostCounted))
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "of the draw")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 20))
      ->capture_default_str();
  command->add_option("--out", arguments->out, "folder for files of failures")->capture_default_str();
  command->add_option("--replay", arguments->file, "run the sequence of this file instead");
  command->add_option("--reduce-seconds", arguments->reduce_seconds, "time to reduce a failure")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  add_verbose_flag(*command, arguments->verbose, "what the libraries are, and all lines of a failure");
  add_target_options(*command, arguments->target);
  add_footer(*command, "attnfuzz sequence cache splitk --cases 1000",
             {"all of them passed", "one failed, or no call was made", kBadUseStatus});
  command->callback([&action, arguments] { action = [arguments] { return sequences::run_sequence(*arguments); }; });
}

}  // namespace attnfuzz
