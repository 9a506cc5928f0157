// attnfuzz report writes a campaign's folder as one HTML page and as JSON. attnfuzz status shows
// the state of a campaign, which may still run. Both only read the folder.
#include "fuzz/report/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>

#include "base/json.h"
#include "base/printable.h"
#include "cli/open/case_file.h"
#include "cli/open/open_kernel.h"
#include "cli/options/help.h"
#include "cli/print/campaign_print.h"
#include "cli/terminal/terminal.h"
#include "fuzz/campaign/store/jobs/folder.h"

namespace attnfuzz {
namespace {

struct ReportArguments {
  std::string dir, out;
  std::vector<std::string> kernels;
  bool run = false, allow_stale = false, json = false, watch = false, verbose = false;
};

// Runs findings again for their pictures. Each target is opened when it is first needed; if that fails, the
// reason is kept.
class Targets {
 public:
  explicit Targets(const ReportArguments& arguments) : named_(arguments.kernels) {
    options_.allow_stale = arguments.allow_stale;
  }

  CasePicture picture(const Reproducer& r) {
    const TargetOptions options = for_file(options_, r);
    Opened& opened = open_[r.kernel + " " + options.backend + " " + options.build_kind];
    const auto same = [&](const std::string& given) { return is_same_plug_in(given, r.kernel); };
    if (is_plug_in(r.kernel) && std::ranges::none_of(named_, same))
      opened.why =
          "Without the error, because its library is run only if it is named: --kernel " + shell_word(r.kernel);
    try {
      if (!opened.target && opened.why.empty()) {
        opened.target = open(library_of(r.kernel, options), options);
        identity_line(opened.target->info(), options);  // throws if it is stale
        opened.calibration = calibration_for(opened.target->info(), options);
      }
      if (opened.target) return take_picture(r.c, r.property, r.kind, *opened.target, opened.calibration);
    } catch (const std::exception& e) {
      opened.target.reset();
      opened.why = std::string("Without the error, because the kernel cannot be run here: ") + e.what();
    }
    return picture_without_error(r.c, opened.why);
  }

 private:
  struct Opened {
    std::unique_ptr<Target> target;
    Calibration calibration;
    std::string why;
  };
  const std::vector<std::string> named_;
  TargetOptions options_;
  std::map<std::string, Opened> open_;
};

Exit run_report(const ReportArguments& arguments) {
  report::Report report = read_and_tell(arguments.dir);
  if (arguments.run) {
    Targets targets(arguments);
    for (report::FindingEntry& entry : report.findings) {
      if (entry.reproducer) entry.picture = targets.picture(*entry.reproducer);
    }
  }
  const auto json = report::report_json(report, utc_now());
  const std::string page = report::report_page(json);
  if (arguments.out == "-") {
    std::fwrite(page.data(), 1, page.size(), stdout);
    return static_cast<Exit>(report.status);
  }
  const std::string file = arguments.out.empty() ? report.dir + "/report.html" : arguments.out;
  write_file(file, page);
  write_file(std::filesystem::path(file).replace_extension(".json").string(), json_text(json, 1) + "\n");
  emit("{}: {} finding(s), {} failure(s) to reduce{}\n", file, report.findings.size(), report.waiting,
       report.problems.empty() ? "" : ", and part of the folder could not be read");
  return static_cast<Exit>(report.status);
}

// Seconds since a shard last recorded its progress. A shard does so at most 5 s after each case.
// Nothing if none has.
std::optional<double> seconds_since_a_case(const std::string& dir) {
  namespace fs = std::filesystem;
  std::optional<fs::file_time_type> last;
  for (const int shard : shards_of(dir)) {
    std::error_code error;
    const auto written = fs::last_write_time(dir + "/shards/" + std::to_string(shard) + "/series.jsonl", error);
    if (!error && (!last || written > *last)) last = written;
  }
  if (!last) return std::nullopt;
  return std::max(0.0, std::chrono::duration<double>(fs::file_time_type::clock::now() - *last).count());
}

bool still_runs(const report::Report& report) {
  const std::vector<Session>& sessions = report.header.sessions;
  return !sessions.empty() && sessions.back().ended.empty() && holder_of(report.dir).works;
}

// "merged from 3 campaigns, of which 2 ended: time, 1 ended: disk full"
std::string merged_state(const std::vector<CampaignPart>& parts) {
  std::map<std::string, int> ends;
  for (const CampaignPart& part : parts)
    ++ends[part.last.ended.empty() ? "not yet, or killed" : part.last.ended];
  std::string text = "merged from " + std::to_string(parts.size()) + " campaign(s), of which ";
  for (const auto& [how, n] : ends)
    text += (how == ends.begin()->first ? "" : ", ") + std::to_string(n) + " ended: " + how;
  return text;
}

// "runs (pid 7 on node3), the last case 2 s ago, 310 s left, new coverage 40 s before the last case"
std::string state_of(const report::Report& report) {
  if (report.header.sessions.empty()) return "no session has begun";
  const std::vector<CampaignPart> parts = parts_of(report.header);
  if (parts.front().shards) return merged_state(parts);
  const Session& session = report.header.sessions.back();
  if (!session.ended.empty()) return "its last session ended: " + session.ended;
  const FolderHolder holder = holder_of(report.dir);
  const auto rounded = [](double seconds) {
    return std::to_string(std::lround(std::max(0.0, seconds))) + " s";
  };
  std::string text = holder.works ? "runs" : "was killed";
  if (!holder.pid.empty()) text += " (pid " + holder.pid + " on " + holder.host + ")";
  if (const auto ago = seconds_since_a_case(report.dir)) text += ", the last case " + rounded(*ago) + " ago";
  const double left = session.from + session.asked - report.explored;
  text += ", " + (left > 0 ? rounded(left) + " left" : "its time is up");
  if (!report.newest.empty())
    text += ", new coverage " + rounded(report.explored - report.newest.back().t) + " before the last case";
  if (!holder.works) text += "; the same command goes on from here";
  return text;
}

std::string coverage_text(const report::Report& report) {
  std::string text;
  for (const auto& [target, measured] : report.coverage)
    text += fmt::format(
        "  {}: {} cases met {:.0f} % of the classes, {:.0f} % of the pairs and {:.0f} % of the triples in the "
        "table of axes\n",
        printable(target), measured.cases, measured.covered.classes.percent(), measured.covered.pairs.percent(),
        measured.covered.triples.percent());
  return text;
}

Exit show(const ReportArguments& arguments) {
  const report::Report report = read_and_tell(arguments.dir);
  auto s = report::summary_json(report);
  s["state"] = state_of(report);
  if (arguments.json) {
    emit("{}\n", json_text(s));
    return static_cast<Exit>(report.status);
  }
  const auto n = [&](const char* name) { return s.at(name).get<uint64_t>(); };
  emit("{}: {}\n", report.dir, printable(state_of(report)));
  print(fmt::format("  {} cases in {:.0f} s, {} refused, {} not judged; corpus {}; {} restart(s)\n", n("cases"),
                    report.explored, n("rejected"), n("uninformative"), n("corpus"), n("restarts")));
  print(fmt::format("  {} finding(s), {} known, {} never seen again, {} failure(s) to reduce\n", n("findings"),
                    n("known"), n("never_again"), n("waiting")));
  print(sequences_text(report.header, report.targets));
  if (const std::string idle = idle_jobs(report.header); !idle.empty()) emit("  {}\n", idle);
  if (n("not_filed") > 0)
    emit("  {} failure(s) more were counted and not looked at: enough of their kind were waiting\n",
         n("not_filed"));
  if (n("of_one_site") > 0)
    emit("  {} failure(s) more at places in the code where others had been kept were only counted\n",
         n("of_one_site"));
  if (n("long_parents") > 0)
    emit(
        "  {} draws did not mutate their case of the corpus, because its rows are too long for the "
        "target\n",
        n("long_parents"));
  if (n("suspicious") > 0)
    print(fmt::format("  {} case(s) with statistical warnings, no failures; kept: {} in {}/suspicious\n",
                      n("suspicious"), report.warnings.size(), report.dir));
  if (arguments.verbose) print(coverage_text(report));
  for (const report::FindingEntry& entry : report.findings) {
    const Finding& f = entry.finding;
    print(fmt::format("  {} x{}{}\n", printable(f.name), f.count, f.tolerated.empty() ? "" : ", known"));
  }
  return static_cast<Exit>(report.status);
}

// Repeats until the session has ended or was killed.
Exit watch(const ReportArguments& arguments) {
  constexpr unsigned kSeconds = 5;
  for (;;) {
    const Exit status = show(arguments);
    emit("\n");
    if (std::fflush(stdout) != 0 || !still_runs(report::read_report(arguments.dir))) return status;
    ::sleep(kSeconds);
  }
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "report",
      "Writes a campaign's folder as one HTML page, and as JSON beside it; runs nothing without --run");
  const auto arguments = std::make_shared<ReportArguments>();
  command->add_option("dir", arguments->dir, "folder of the campaign")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("-o,--out", arguments->out,
                      "page to write, - for standard output (default: DIR/report.html)");
  command->add_flag("--run", arguments->run, "run findings again on their kernels, for new pictures");
  command
      ->add_option("--kernel", arguments->kernels,
                   "a plug-in that may be run; without it, a finding's library is not loaded")
      ->needs("--run");
  command
      ->add_flag("--allow-stale", arguments->allow_stale,
                 "run a library whose sources have changed since it was built")
      ->needs("--run");
  add_footer(*command, "attnfuzz report night", kCampaignExitStatuses);
  command->callback([&action, arguments] { action = [arguments] { return run_report(*arguments); }; });
}

void add_status(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("status", "Shows the state of a campaign, also while it runs; only reads its folder");
  const auto arguments = std::make_shared<ReportArguments>();
  command->add_option("dir", arguments->dir, "folder of the campaign")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_flag("--json", arguments->json, "as one JSON object: the summary of report.json");
  add_verbose_flag(*command, arguments->verbose, "how much of the table of axes each target has covered");
  command->add_flag("--watch", arguments->watch, "print it every 5 s until the session ends");
  add_footer(*command, "attnfuzz status night", kCampaignExitStatuses);
  command->callback([&action, arguments] {
    action = [arguments] { return arguments->watch ? watch(*arguments) : show(*arguments); };
  });
}

}  // namespace attnfuzz
