// attnfuzz check: draws cases, judges them, reduces and files what fails.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "cli/print.h"
#include "cli/session.h"
#include "fuzz/check/refusals.h"
#include "properties/case/words.h"
#include "properties/explain/fault_class.h"
#include "properties/explain/trace.h"

namespace attnfuzz {
namespace {

struct Arguments {
  std::vector<std::string> kernels;
  std::vector<std::string> properties;
  TargetOptions target;
  CheckOptions check;
  std::string duration, out = ".", json, junit;
  double reduce_seconds = 30;
};

// Reduces the failure, writes its reproducer, says everything about it.
Filed report(const Failure& found, Target& target, const Calibration& calibration, const Arguments& arguments) {
  Filed filed;
  std::string& file = filed.reproducer;
  Verdict verdict = found.verdict;
  std::printf("\nFAILURE in case %llu of seed %llu\n", (unsigned long long)found.index,
              (unsigned long long)arguments.check.seed);
  if (verdict.outcome != Outcome::kFail) {
    std::printf("  it did not fail again in a fresh worker: flaky, or dependent on what ran before\n");
    verdict.property = found.property->name;
  }
  std::printf("%s  case: %s\n", verdict_text(verdict).c_str(), describe(found.c).c_str());

  const auto file_it = [&](const Case& c, const Verdict& v, const Reduction* reduction) {
    Reproducer r = reproducer_of(c, v, target.info(), target);
    if (reduction != nullptr) {
      r.needs = reduction->needs;
      r.indifferent = reduction->indifferent;
    }
    const std::string name =
        (std::filesystem::path(arguments.out) / (reproducer_name(r) + ".attn.json")).string();
    write_file(name, encode(r, name));
    if (!file.empty() && file != name) std::filesystem::remove(file);
    file = name;
  };
  std::filesystem::create_directories(arguments.out);
  file_it(found.c, verdict, nullptr);
  if (verdict.kind == Kind::kNone) return filed;

  ReduceOptions options;
  options.seconds = arguments.reduce_seconds;
  options.on_better = [&](const Case& best, const Verdict& v) { file_it(best, v, nullptr); };
  const auto start = std::chrono::steady_clock::now();
  filed.reduction = reduce_failure(found.c, verdict, *found.property, target, calibration, options);
  filed.reduce_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Reduction& reduction = *filed.reduction;
  file_it(reduction.minimal, reduction.verdict, &reduction);
  std::printf("\nREDUCED in %lld evaluations%s\n  %s\n%s", (long long)reduction.evaluations,
              reduction.complete ? "" : " (the clock ran out: attnfuzz reduce FILE goes on)",
              describe(reduction.minimal).c_str(), verdict_text(reduction.verdict).c_str());
  for (const std::string& need : lines_of(reduction.needs)) std::printf("  %s\n", need.c_str());
  if (!reduction.indifferent.empty()) {
    std::printf("  does not matter:");
    for (const std::string& part : reduction.indifferent) std::printf(" %s;", part.c_str());
    std::printf("\n");
  }
  const FaultGuess guess =
      guess_fault({reduction.minimal, reduction.verdict, reduction.needs, target.info().lane,
                   trace_values(reduction.minimal, target, calibration).fault});
  if (guess.known()) std::printf("  %s\n", guess.line().c_str());
  return filed;
}

struct Checked {
  KernelInfo kernel;
  CheckResult result;
  Filed filed;
};

Checked check_kernel(const KernelLibrary& library, const Arguments& arguments) {
  const std::string& name = library.name;
  std::unique_ptr<Target> target = open(library, arguments.target);
  Checked checked;
  checked.kernel = target->info();
  const Calibration calibration = calibration_for(checked.kernel, arguments.target);
  std::printf("%s\n", identity_line(checked.kernel, arguments.target).c_str());
  std::printf("  bound: calibration '%s'%s; seed %llu, %d job(s)\n", calibration.name.c_str(),
              calibration.measured ? "" : " (documented, not measured)",
              (unsigned long long)arguments.check.seed, arguments.check.jobs);
  std::fflush(stdout);
  const Refused refused = ask_for_refusals(*target);
  target.reset();  // each job opens its own

  CheckOptions options = arguments.check;
  std::string silent, refused_too;
  std::erase_if(options.properties, [&](const Property* property) {
    if (speaks_of(*property, checked.kernel) && speaks_of(*property, refused)) return false;
    std::string& list = speaks_of(*property, checked.kernel) ? refused_too : silent;
    list += std::string(list.empty() ? "" : ", ") + property->name;
    return true;
  });
  if (!silent.empty()) std::printf("  left out, for this kernel has no stages: %s\n", silent.c_str());
  if (refused != Refused{}) {
    std::printf("  refused by this kernel, and drawn but rarely: %s%s%s\n", in_words(refused).c_str(),
                refused_too.empty() ? "" : "; left out: ", refused_too.c_str());
  }
  if (options.properties.empty()) throw UserError("no property is left to judge " + name + " by");

  const OpenTarget open_one = [&](std::string* error) -> std::unique_ptr<Target> {
    try {
      return open(library, arguments.target);
    } catch (const UserError& e) {
      *error = e.what();
      return nullptr;
    }
  };
  {
    ProgressLine line(name);
    checked.result = check(open_one, calibration, options,
                           [&](uint64_t done, uint64_t of, double seconds) { line.show(done, of, seconds); });
  }
  std::printf("%s%s", properties_table(checked.result).c_str(), check_notes(checked.result).c_str());
  if (checked.result.failure) {
    target = open(library, arguments.target);
    Failure& failure = *checked.result.failure;
    // Judged anew, in this process: what is reported was seen here. Twice, if need
    // be; briefly, for the job that found a hang has given it all its time.
    target->watch(Watch::kBrief);
    for (int i = 0; i < 2 && failure.verdict.outcome != Outcome::kFail; ++i)
      failure.verdict = judge(failure.c, *failure.property, *target, calibration);
    checked.filed = report(failure, *target, calibration, arguments);
    std::printf("\nreplay: %s\n", replay_line(checked.filed.reproducer).c_str());
  }
  std::fflush(stdout);
  return checked;
}

void write_report(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    write_file(path, text);
  }
}

Exit run(Arguments arguments) {
  if (!arguments.duration.empty()) arguments.check.seconds = parse_duration(arguments.duration);
  if (arguments.properties.empty()) {
    arguments.check.properties.assign(properties().begin(), properties().end());
  }
  for (const std::string& name : arguments.properties)
    arguments.check.properties.push_back(&property_named(name));
  if (arguments.check.jobs == 0) arguments.check.jobs = std::max(1u, std::thread::hardware_concurrency());

  std::vector<Checked> all;
  for (const std::string& name : arguments.kernels) {
    for (const KernelLibrary& library : libraries_of(name, arguments.target))
      all.push_back(check_kernel(library, arguments));
  }

  Exit status = kHeld;
  std::vector<JUnitSuite> suites;
  std::string json;
  for (const Checked& checked : all) {
    if (checked.result.failure) status = kFound;
    suites.push_back(
        {"attnfuzz." + checked.kernel.name + "." + backend_name(checked.kernel.backend), &checked.result});
    json += check_json(checked.kernel, arguments.check, checked.result, checked.filed);
  }
  if (!arguments.junit.empty()) write_report(arguments.junit, junit_xml(suites));
  if (!arguments.json.empty()) write_report(arguments.json, json);
  for (const Checked& checked : all) {
    // Rows, for a kernel that refuses all of its cases passes those that are about refusals.
    const CheckResult& result = checked.result;
    if (result.failure || result.rows > result.unconstrained_rows) continue;
    std::fprintf(stderr, "attnfuzz: no result of %s was compared: a check that checks nothing does not pass\n",
                 checked.kernel.name.c_str());
    status = kFound;
  }
  return status;
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("check", "Checks kernels on drawn cases; stops at the first failure of each");
  const auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("kernel", arguments->kernels,
                   "kernels by name, or plug-ins by path (./libmine.so, ./libmine.so:KERNEL)")
      ->required();
  command->add_option("--property", arguments->properties, "only these properties (default: all, round-robin)");
  arguments->check.jobs = 0;
  command->add_option("--cases", arguments->check.cases, "cases to draw for each kernel")
      ->check(CLI::Range(uint64_t{0}, kMostCounted))
      ->capture_default_str();
  command->add_option("--for", arguments->duration, "as many cases as fit into 30s, 5m, 2h")
      ->excludes("--cases");
  command->add_option("--seed", arguments->check.seed, "of the stream of cases")
      ->check(CLI::Range(uint64_t{0}, kMostCounted))
      ->capture_default_str();
  command->add_option("--first", arguments->check.first, "number of the first case: to come back to one")
      ->check(CLI::Range(uint64_t{0}, kMostCounted))
      ->capture_default_str();
  command->add_option("--jobs", arguments->check.jobs, "processes; 0: one a core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_option("--work", arguments->check.work, "multiply-adds that one case may cost")
      ->check(CLI::Range(int64_t{10000}, int64_t{1} << 40))
      ->capture_default_str();
  command->add_option("--out", arguments->out, "folder for reproducers")->capture_default_str();
  command->add_option("--reduce-seconds", arguments->reduce_seconds, "wall clock for reducing a failure")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command->add_option("--json", arguments->json,
                      "write results as JSON lines to this file, - for standard output");
  command->add_option("--junit", arguments->junit, "write results as JUnit XML to this file");
  add_target_options(*command, arguments->target);
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace attnfuzz
