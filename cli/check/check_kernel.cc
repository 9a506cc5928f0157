#include "cli/check/check_kernel.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/printable.h"
#include "base/processes.h"
#include "cli/check/filing.h"
#include "cli/check/no_pass.h"
#include "cli/options/terms.h"
#include "cli/print/failure.h"
#include "cli/print/summary.h"
#include "cli/print/tables.h"
#include "cli/terminal/status_line.h"
#include "cli/terminal/terminal.h"
#include "fuzz/check/takes/declaration.h"
#include "fuzz/check/takes/refusals.h"
#include "properties/case/features/domain.h"
#include "properties/case/features/feature.h"
#include "properties/case/words.h"
#include "properties/draw/afford.h"

namespace attnfuzz {
namespace {

// With fewer cases a low coverage only shows that they are few, so it is not printed.
constexpr uint64_t kFewestToMeasure = 1000;

// --domain narrows what a trusted kernel declares. For an untrusted kernel it replaces the declaration.
CheckArguments within_domain(CheckArguments arguments, const KernelLibrary& library) {
  if (arguments.check.terms && arguments.target.untrusted.empty())
    arguments.check.terms = narrowed(*arguments.check.terms, open(library, arguments.target)->info());
  return arguments;
}

// Returns the kinds of problem of which the check draws only few cases. Without --domain, the kernel refuses
// them. With --domain, the domain excludes them; for a trusted kernel, refusals that --domain does not name are
// added.
Refused refused_of(Target& target, const CheckArguments& arguments) {
  const std::optional<Terms>& terms = arguments.check.terms;
  if (!terms) return ask_for_refusals(target);
  if (!arguments.target.untrusted.empty()) return terms->refused;
  return with_unspoken(terms->refused, parse_domain(arguments.domain).domain, ask_for_refusals(target));
}

class KernelCheck {
 public:
  KernelCheck(const KernelLibrary& library, const CheckArguments& given, const Interrupts& interrupts)
      : library_(library), arguments_(within_domain(given, library)), options_(arguments_.check) {
    options_.batch = arguments_.target.batch;
    options_.interrupted = [&interrupts] { return interrupts.came(); };
  }

  Checked run() {
    begin();
    ask();
    choose_properties();
    if (arguments_.target.untrusted.empty()) {
      judge_and_file();
    } else {
      judge_and_file_untrusted();
    }
    std::fflush(stdout);
    return std::move(checked_);
  }

 private:
  void judge_and_file() {
    const Filing filing = filing_options();
    detail(try_found_before(*target_, calibration_, filing, checked_));
    aim();
    if (checked_.result.failures.empty() || options_.keep_going) {
      draw();
      conclude();
    }
    say_summary();
    file(filing);
  }

  // The same, but whatever the kernel does, there is a verdict: that the check ended early is one, too.
  void judge_and_file_untrusted() {
    try {
      judge_and_file();
    } catch (const std::exception& e) {
      line_.clear();
      const std::string why = checked_.kernel.name + ": the check ended early: " + e.what();
      print("  " + printable(why) + "\n");
      checked_.not_judged.push_back(why);
      const std::vector<Failure>& failures = checked_.result.failures;
      for (size_t n = checked_.filed.size(); n < failures.size(); ++n) say_failure(failures[n], {});
    }
  }

  void detail(const std::string& text) const {
    if (arguments_.verbose) print(text);
  }

  std::unique_ptr<Target> open_on_terms() const {
    std::unique_ptr<Target> opened = open(library_, arguments_.target);
    if (options_.terms) opened->terms = options_.terms->domain;
    return opened;
  }

  // Opens the kernel and prints its identity.
  void begin() {
    target_ = open_on_terms();
    KernelInfo& kernel = checked_.kernel = target_->info();
    checked_.measures = library_.measures;
    if (kernel.backend != ATTN_CPU && options_.arithmetic != ATTN_ARITHMETIC_ANY)
      throw UserError("--arithmetic " + arguments_.arithmetic + " is the CPU executor's: a GPU has its own");
    const std::string stem =
        is_plug_in(library_.name) ? std::filesystem::path(library_.path).stem().string() + "." : "";
    checked_.suite = fmt::format("attnfuzz.{}{}.{}", stem, kernel.name, backend_name(kernel.backend));
    calibration_ = calibration_for(kernel, arguments_.target);
    say_identity(identity_line(kernel, arguments_.target), arguments_.verbose);
    detail(fmt::format("  bound: calibration '{}'{}; seed {}, {} job(s)\n", calibration_.name,
                       calibration_.measured ? "" : " (documented, not measured)", options_.seed,
                       options_.jobs));
    if (!kernel.note.empty()) print("  note: " + kernel.note + "\n");
    for (const Property* property : options_.properties) print(expect_peer(*target_, *property));
    batch_target_of(*target_, arguments_.target);  // throws if it cannot judge batches
    if (checked_.measures != 0) print(confinement_text(checked_.measures));
  }

  // Asks the kernel what it refuses.
  void ask() {
    by_kernel_ = checked_.refused = refused_of(*target_, arguments_);
    if (options_.finite) checked_.refused.those.push_back(refusal_of_several(Limit::kFinite));
    options_.refused = checked_.refused;
    if (by_kernel_.nothing()) return;
    detail("  refused by this kernel, so rarely drawn: " + in_words(by_kernel_) + "\n");
    checked_.left_out.push_back("most cases of what it refuses: " + in_words(by_kernel_));
    if (options_.terms || checked_.kernel.domain) return;
    if (!checked_.kernel.refuses_late) {
      detail("    as a declaration of what it takes: attnfuzz limits " + printable(library_.name) + "\n");
    } else if (checked_.kernel.build.flags.empty()) {
      detail("    as a declaration of what it takes: domain=" + as_python(declaration_of(by_kernel_)) + "\n");
    }
  }

  // Leaves out the properties that do not apply to this kernel, and says why.
  void choose_properties() {
    std::vector<const char*> foreign, silent, refused, infinite, by_name;
    std::erase_if(options_.properties, [&](const Property* property) {
      if (!of_its_operation(*property, checked_.kernel)) {
        if (!arguments_.properties.empty()) foreign.push_back(property->name);
        return true;
      }
      if (speaks_of(*property, checked_.kernel) && speaks_of(*property, checked_.refused)) return false;
      (!speaks_of(*property, checked_.kernel) ? silent
       : !speaks_of(*property, by_kernel_)    ? refused
                                              : infinite)
          .push_back(property->name);
      return true;
    });
    if (options_.properties.empty()) throw UserError("no property is left to judge " + library_.name + " by");
    if (arguments_.properties.empty()) {
      for (const Property* property : all_properties()) {
        if (std::ranges::find(arguments_.check.properties, property) == arguments_.check.properties.end() &&
            of_its_operation(*property, checked_.kernel))
          by_name.push_back(property->name);
      }
    }
    const auto leave_out = [&](const std::vector<const char*>& names, const char* why) {
      if (!names.empty()) checked_.left_out.push_back(fmt::format("{} ({})", fmt::join(names, ", "), why));
    };
    leave_out(foreign, "they need an operation or a feature that this kernel does not have");
    leave_out(silent, "this kernel has no stages");
    leave_out(refused, "they need what this kernel refuses");
    leave_out(infinite, "--finite");
    leave_out(by_name, "run only by --property");
  }

  Filing filing_options() {
    OpenBuild open_build;
    if (arguments_.target.untrusted.empty())  // a sanitizer needs what confinement takes away
      open_build = [this](const std::string& build_kind) {
        return open_in(build_kind, library_, checked_.kernel.build, arguments_.target);
      };
    if (open_build && checked_.kernel.backend == ATTN_CPU && checked_.kernel.build_kind == "plain")
      options_.open_asan = [open_build] { return open_build("asan"); };
    return {.check = arguments_.check,
            .folder = arguments_.out,
            .reduce_seconds = arguments_.reduce_seconds,
            .untrusted = !arguments_.target.untrusted.empty(),
            .stop = options_.interrupted,
            .open_build = open_build,
            .at_work = [this](const std::string& what) {
              detail(what + " ...\n");
              std::fflush(stdout);
              if (!arguments_.verbose) line_.show(checked_.kernel.name + ": " + what);
            }};
  }

  // Makes the configuration of the generator, and closes the target, because each job opens its own.
  void aim() {
    config_ = config_for(*target_, options_);
    options_.config = config_;
    if (Case least; config_.domain) {
      fit(*config_.domain, least);
      const double times = static_cast<double>(exact_work(least.problem)) / static_cast<double>(config_.work);
      if (times > 1)
        print(fmt::format("  slow: the smallest case that it must take costs {:.1f} times what --work allows\n",
                          times));
    }
    if (!arguments_.target.untrusted.empty()) detail(measure_taken(*target_, arguments_.check, checked_));
    std::fflush(stdout);
    target_.reset();
  }

  void draw() {
    const OpenTarget open_one = [this](std::string* error) -> std::unique_ptr<Target> {
      try {
        std::unique_ptr<Target> opened = open_on_terms();
        put_oracle(*opened, arguments_.target);
        return opened;
      } catch (const UserError& e) {
        *error = e.what();
        return nullptr;
      }
    };
    CheckResult drawn =
        check(open_one, calibration_, options_, [&](uint64_t done, uint64_t of, double seconds) {
          line_.show(progress_line(checked_.kernel.name, done, of, seconds, options_.seconds));
        });
    line_.clear();
    for (Failure& before : checked_.result.failures) drawn.add(std::move(before));
    checked_.result = std::move(drawn);
    checked_.result.features.reach = kernel_has(operations::forward, checked_.kernel.features)
                                         ? reach_in_domain(config_)
                                         : no_floor_within_reach();
  }

  // Names the part of the cases that was drawn; empty if all kinds were. Only then do the floors of the draw
  // apply.
  std::string part() const {
    if (!options_.path.empty()) return "cases of one path";
    return arguments_.properties.empty() ? "" : "cases of some properties";
  }

  // Collects the reasons why the check may not pass, and the tables.
  void conclude() {
    CheckResult& result = checked_.result;
    if (!result.interrupted) collect_not_judged(arguments_, options_, part().empty(), checked_);
    if (result.coverage.cases() >= kFewestToMeasure) checked_.covered = measure(result.coverage, config_);
    const bool held = result.failures.empty() && !result.interrupted;
    if (held && kernel_has(operations::forward, checked_.kernel.features)) {
      // A Python function may load slowly, and its tiles are only the user's declaration, so they
      // are not checked.
      checked_.tiles = checked_.kernel.refuses_late ? KeyTiles{config_.tiles_q.front(), config_.tiles_k.front()}
                                                    : show_key_tiles(*open_on_terms(), config_.domain);
      if (const KeyTiles& tiles = *checked_.tiles; !tiles.broken.empty())
        checked_.not_judged.push_back(
            fmt::format("{}: asked for its tiles by a simple case, {}: check it with --domain '{}'",
                        checked_.kernel.name, tiles.broken, tiles.sizes));
    }
    detail(properties_table(result) + check_notes(result, checked_.refused, checked_.covered, part()));
    if (checked_.tiles && (arguments_.verbose || checked_.tiles->contradicted()))
      print("  " + words(*checked_.tiles) + "\n");
    if (held) detail(try_tighter(*open_on_terms(), config_, calibration_, arguments_, checked_));
    if (arguments_.census) print(text(result.census));
  }

  // Names the builds that were not run and that find more than this one.
  std::vector<std::string> builds_not_run() const {
    std::vector<std::string> names;
    if (checked_.kernel.backend != ATTN_CPU) return names;
    for (const BuildKind& build_kind : build_kinds()) {
      if (build_kind.sanitizer() && build_kind.name != checked_.kernel.build_kind &&
          !checked_.result.build_kinds.contains(build_kind.name))
        names.emplace_back(build_kind.name);
    }
    return names;
  }

  void say_summary() {
    const CheckResult& result = checked_.result;
    size_t judged = 0;
    std::vector<const char*> idle;
    for (const Property* property : options_.properties) {
      if (judged_by(result, *property))
        ++judged;
      else
        idle.push_back(property->name);
    }
    // A failure ends a check early. Properties that had no turn by then do not count as left out.
    if (!idle.empty() && result.cases() > 0 && result.failures.empty())
      checked_.left_out.push_back(fmt::format("{} (judged nothing)", fmt::join(idle, ", ")));
    if (const std::vector<std::string> builds = builds_not_run(); !builds.empty())
      checked_.left_out.push_back(fmt::format("the builds {} (--build)", fmt::join(builds, ", ")));
    print(summary_text(checked_, judged, options_.seed, takes_colors(STDOUT_FILENO)));
    for (const uint64_t index : result.given_up)
      print(fmt::format("  interrupted in case {}, which did not end by itself\n", index));
    if (!result.died_with.empty())
      print(fmt::format("  not judged, in flight in a process that died: {} {}\n",
                        result.died_with.size() == 1 ? "case" : "cases", fmt::join(result.died_with, ", ")));
    if (result.uncounted > 0)
      print(fmt::format("  not counted: {} cases, judged by a process that ended without an answer\n", result.uncounted));
    if (result.never_run > 0)
      print(fmt::format("  not run: {} cases that were left to a process that died\n", result.never_run));
  }

  // Files the failures and the statistical warnings, and prints them.
  void file(const Filing& filing) {
    CheckResult& result = checked_.result;
    if (result.failures.empty() && result.warnings.empty()) return;
    target_ = open_on_terms();
    file_warnings(*target_, filing, checked_);
    for (size_t n = 0; n < result.warnings.size(); ++n) say_warning(result.warnings[n], checked_.warnings[n]);
    for (Failure& failure : result.failures) {
      std::unique_ptr<Target> there;  // the target of the build asan, if a case was run in it
      if (failure.c.build_kind != checked_.kernel.build_kind && failure.file.empty())
        there = filing.open_build(failure.c.build_kind);
      Filed& filed =
          checked_.filed.emplace_back(file_failure(failure, there ? *there : *target_, calibration_, filing));
      line_.clear();
      filed.replay = replay_line(filed.reproducer, library_.name, peer_name(*target_), filed.before) +
                     distrust_words(arguments_.target);
      filed.statistics = advice_on(failure, filed);
      say_failure(failure, filed);
    }
  }

  void say_failure(const Failure& failure, const Filed& filed) const {
    print("\n" + failure_block(sections_of(failure, filed, options_.seed, arguments_.verbose),
                               arguments_.verbose, takes_colors(STDOUT_FILENO)));
  }

  void say_warning(const WarnedCase& warned, const std::string& file) const {
    const StatisticalWarning& s = warned.warning;
    print(fmt::format("\nSTATISTICAL WARNING ({}), no failure: case {}: {}\n  case: {}\nsee it again: {}{}\n",
                      s.sign, warned.index, printable(s.message), describe(s.c),
                      replay_line(file, command_name(checked_.kernel), peer_name(*target_)),
                      distrust_words(arguments_.target)));
  }

  const KernelLibrary& library_;
  const CheckArguments arguments_;
  CheckOptions options_;
  std::unique_ptr<Target> target_;
  Calibration calibration_;
  Refused by_kernel_;
  GeneratorConfig config_;
  Checked checked_;
  StatusLine line_;
};

}  // namespace

Checked check_kernel(const KernelLibrary& library, const CheckArguments& arguments,
                     const Interrupts& interrupts) {
  return KernelCheck(library, arguments, interrupts).run();
}

}  // namespace attnfuzz
