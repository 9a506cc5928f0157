// attnfuzz report: a campaign's folder as one HTML page.
#include "fuzz/report/report.h"

#include <cstdio>
#include <map>

#include "cli/session.h"

namespace attnfuzz {
namespace {

struct Arguments {
  std::string dir, out;
  bool no_run = false, allow_stale = false;
};

// Targets that findings are run on again for their pictures: one of each, or why there is none.
class Targets {
 public:
  explicit Targets(bool allow_stale) { options_.allow_stale = allow_stale; }

  report::CasePicture picture(const Reproducer& r) {
    const TargetOptions options = for_file(options_, r);
    Opened& opened = open_[r.kernel + " " + options.backend + " " + options.lane];
    if (!opened.target && opened.why.empty()) {
      try {
        opened.target = open(library_of(r.kernel, options), options);
        identity_line(opened.target->info(), options);  // throws if it is stale
        opened.calibration = calibration_for(opened.target->info(), options);
      } catch (const std::exception& e) {
        opened.target.reset();
        opened.why = std::string("Without the error, for the kernel cannot be run here: ") + e.what();
      }
    }
    try {
      return report::picture_of(r, opened.target.get(), opened.calibration, opened.why);
    } catch (const std::exception& e) {
      opened.target.reset();  // a new one for the next
      return report::picture_of(r, nullptr, {},
                                std::string("Without the error, for running it failed: ") + e.what());
    }
  }

 private:
  struct Opened {
    std::unique_ptr<Target> target;
    Calibration calibration;
    std::string why;
  };
  TargetOptions options_;
  std::map<std::string, Opened> open_;
};

Exit run(const Arguments& arguments) {
  report::Report report = report::read_report(arguments.dir);
  for (const std::string& problem : report.problems) std::fprintf(stderr, "attnfuzz: %s\n", problem.c_str());
  Targets targets(arguments.allow_stale);
  for (report::FindingEntry& entry : report.findings) {
    if (!entry.reproducer) continue;
    const Reproducer& r = *entry.reproducer;
    entry.picture = arguments.no_run ? report::picture_of(r, nullptr, {},
                                                          "Without the error: nothing was run for this page.")
                                     : targets.picture(r);
  }
  const std::string text = report::report_html(report, utc_now());
  if (arguments.out == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return report.problems.empty() ? kHeld : kBadUse;
  }
  const std::string file = arguments.out.empty() ? report.dir + "/report.html" : arguments.out;
  write_file(file, text);
  std::printf("%s: %zu finding(s)%s\n", file.c_str(), report.findings.size(),
              report.problems.empty() ? "" : ", and part of the folder could not be read");
  return report.problems.empty() ? kHeld : kBadUse;
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("report", "Makes one HTML page of a campaign's folder");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("dir", arguments->dir, "folder of the campaign")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("-o,--out", arguments->out,
                      "file to write, - for standard output (default: DIR/report.html)");
  command->add_flag("--no-run", arguments->no_run, "run no kernel: pictures of findings without their errors");
  command->add_flag("--allow-stale", arguments->allow_stale,
                    "run a library whose sources have changed since it was built");
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace attnfuzz
