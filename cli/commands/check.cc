// attnfuzz check: parses the arguments, checks kernel by kernel, and writes the results for people
// and machines.
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <thread>

#include "base/files.h"
#include "base/printable.h"
#include "base/processes.h"
#include "cli/check/check_kernel.h"
#include "cli/open/entry_options.h"
#include "cli/options/help.h"
#include "cli/options/terms.h"
#include "cli/terminal/results_apart.h"

namespace attnfuzz {
namespace {

// A random seed. If the author of an untrusted kernel knew the cases, the kernel could be right on only those
// cases.
uint64_t drawn_seed() {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
    throw UserError("the system gives no random seed: say --seed");
  return seed % kMostCounted;
}

// Throws UserError unless files can be written to the folder. The folder itself is made at the first failure.
// The probe file has a unique name, because another check may use the folder at the same time.
void expect_folder(const std::string& out) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::absolute(out).lexically_normal();
  fs::path there = folder;
  while (!fs::exists(there)) there = there.parent_path();
  expect_room_for((there / "reproducer").string());
  if (there == folder) return;
  std::string trial = (there / ".attnfuzz-XXXXXX").string();
  std::error_code error, none;
  if (mkdtemp(trial.data()) == nullptr)
    error = {errno, std::generic_category()};
  else
    fs::create_directories(trial / folder.lexically_relative(there), error);
  fs::remove_all(trial, none);
  if (error) throw UserError("--out " + out + ": no folder can be made there: " + error.message());
}

// Fills the fields that follow from the given options.
void complete(CheckArguments& arguments) {
  CheckOptions& check = arguments.check;
  TargetOptions& target = arguments.target;
  if (!arguments.duration.empty()) check.seconds = parse_duration(arguments.duration);
  if (arguments.properties.empty()) check.properties.assign(properties().begin(), properties().end());
  for (const std::string& name : arguments.properties) check.properties.push_back(&property_named(name));
  if (!target.untrusted.empty() && target.batch > 0)
    throw UserError(
        "--batch judges in the kernel's own process, and --untrusted is for kernels that may change that: "
        "leave one out");
  check.seed = arguments.seed ? *arguments.seed : target.untrusted.empty() ? 1 : drawn_seed();
  check.arithmetic = target.arithmetic = *arithmetic_named(arguments.arithmetic);
  if (arguments.properties.empty() && check.arithmetic != ATTN_ARITHMETIC_ANY)
    check.properties.push_back(find_property("bit_exact"));
  if (!arguments.domain.empty()) {
    check.terms = parse_domain(arguments.domain);
    if (const std::string& lse = check.terms->errors; !lse.empty())
      target.errors += (target.errors.empty() ? "" : " ") + lse;
  }
  if (check.jobs == 0) check.jobs = std::max(1u, std::thread::hardware_concurrency());
}

// Checks the kernels of one argument. False if one of them is untrusted and cannot be opened or checked: the
// error is printed, and others have their verdicts all the same.
bool check_each(const std::string& name, const CheckArguments& arguments, const Interrupts& interrupts,
                std::vector<Checked>& all) {
  bool sound = true;
  const auto attempt = [&](const auto& work) {
    try {
      work();
    } catch (const std::exception& e) {
      if (arguments.target.untrusted.empty()) throw;
      std::fprintf(stderr, "attnfuzz: %s\n", printable(e.what()).c_str());
      sound = false;
    }
  };
  std::vector<KernelLibrary> libraries;
  attempt([&] { libraries = libraries_of(name, arguments.target); });
  for (const KernelLibrary& library : libraries) {
    if (!interrupts.came()) attempt([&] { all.push_back(check_kernel(library, arguments, interrupts)); });
  }
  return sound;
}

// `sound`: as check_each() returns.
std::vector<Checked> check_all(CheckArguments& arguments, const Interrupts& interrupts, bool& sound) {
  for (std::string& kernel : arguments.kernels)
    kernel = library_of_source(kernel, arguments.entry, arguments.target, arguments.out, arguments.check.terms);
  std::vector<Checked> all;
  sound = true;
  for (const std::string& name : arguments.kernels) sound &= check_each(name, arguments, interrupts, all);
  // Two libraries of the same name in two folders get different names.
  std::map<std::string, int> suites;
  for (Checked& checked : all) {
    if (const int before = suites[checked.suite]++; before > 0)
      checked.suite += "-" + std::to_string(before + 1);
  }
  return all;
}

void write_results(const CheckArguments& arguments, const std::vector<Checked>& all) {
  if (!arguments.junit.empty()) write_to(arguments.junit, junit_xml(all));
  if (!arguments.sarif.empty()) write_to(arguments.sarif, sarif_json(all, ATTNFUZZ_VERSION));
  // If standard output is JSON, JUnit or SARIF, do not mix in GitHub's annotation lines.
  const bool to_machines = arguments.json == "-" || arguments.junit == "-" || arguments.sarif == "-";
  if (const char* github = std::getenv("GITHUB_ACTIONS");
      github && std::string(github) == "true" && !to_machines)
    std::printf("%s", github_annotations(all).c_str());
  std::string json;
  for (const Checked& checked : all) json += check_json(arguments.check, checked);
  if (!arguments.json.empty()) write_to(arguments.json, json);
}

// Says on standard error why the check does not pass although nothing failed.
Exit conclude(const std::vector<Checked>& all, const Interrupts& interrupts) {
  bool found = false, unjudged = false;
  for (const Checked& checked : all) {
    found |= !checked.result.failures.empty();
    if (!checked.result.failures.empty()) continue;
    unjudged |= !checked.not_judged.empty();
    for (const std::string& why : checked.not_judged) std::fprintf(stderr, "attnfuzz: %s\n", why.c_str());
  }
  if (interrupts.came()) {
    std::fprintf(stderr, "attnfuzz: interrupted by SIG%s: this is no pass\n",
                 sigabbrev_np(interrupts.signal()));
    if (!found) return static_cast<Exit>(128 + interrupts.signal());
  }
  return found || unjudged ? kFound : kPassed;
}

Exit run_check(CheckArguments arguments) {
  complete(arguments);
  expect_source(arguments.kernels, arguments.entry);
  // Refuses a path that cannot be written now, not after hours of work.
  for (const std::string& path : {arguments.json, arguments.junit, arguments.sarif}) {
    if (!path.empty() && path != "-") expect_room_for(path);
  }
  expect_folder(arguments.out);
  const Interrupts interrupts;
  std::optional<ResultsApart> apart(
      std::in_place, std::initializer_list<std::string>{arguments.json, arguments.junit, arguments.sarif});
  bool sound = false;
  const std::vector<Checked> all = check_all(arguments, interrupts, sound);
  apart.reset();
  if (all.empty() && !sound) return kBadUse;
  write_results(arguments, all);
  const Exit status = conclude(all, interrupts);
  return sound ? status : kBadUse;
}

// Adds the options that choose the cases.
void add_draw_options(CLI::App& command, CheckArguments& arguments) {
  command.add_option("--cases", arguments.check.cases, "cases to draw for each kernel")
      ->check(CLI::Range(uint64_t{0}, kMostCounted))
      ->capture_default_str();
  command.add_option("--for", arguments.duration, "as many cases as fit into 30s, 5m, 2h")->excludes("--cases");
  command
      .add_option("--seed", arguments.seed,
                  "seed of the stream of cases; default: 1, and with --untrusted a random one")
      ->check(CLI::Range(uint64_t{0}, kMostCounted));
  command
      .add_option("--first", arguments.check.first,
                  "number of the first case, to start at a case of an earlier check")
      ->check(CLI::Range(uint64_t{0}, kMostCounted))
      ->capture_default_str();
  command.add_option(
      "--domain", arguments.domain,
      "draw only inside this part of what the kernel declares: 'dim=64,128 seq=1000..4096 no_bias'. "
      "The kernel must take the sizes that this names (docs/own-kernel.md). For an untrusted kernel "
      "it replaces the declaration (docs/untrusted.md)");
  command.add_flag("--finite", arguments.check.finite,
                   "draw no NaN or infinity in Q, K and V, for which the kernel promises nothing");
}

// Adds the options that choose what is printed and written.
void add_result_options(CLI::App& command, CheckArguments& arguments) {
  command.add_flag("--census", arguments.census,
                   "print how often each value of each field of a problem reached the kernel, and which pairs "
                   "of values never did (in --json: \"census\")");
  command.add_option("--json", arguments.json,
                     "write results as JSON lines to this file, - for standard output");
  command.add_option("--junit", arguments.junit, "write results as JUnit XML to this file");
  command.add_option("--sarif", arguments.sarif,
                     "write failures as SARIF 2.1.0 to this file, for code scanning");
  add_verbose_flag(command, arguments.verbose,
                   "the tables of properties and of what was drawn, and all lines of a failure");
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("check", "Checks kernels on drawn cases; stops at the first failure of each");
  add_footer(*command, "attnfuzz check fa1 ./libmine.so --cases 5000 --out found",
             {"it passed", "a failure was found, or too little was judged", kBadUseStatus},
             "129, 130 or 143: nothing was found before SIGHUP, SIGINT or SIGTERM came.");
  const auto arguments = std::make_shared<CheckArguments>();
  command
      ->add_option(
          "kernel", arguments->kernels,
          "kernels by name, plug-ins by path (./libmine.so, ./libmine.so:KERNEL), or a CUDA source (mine.cu)")
      ->required();
  add_entry_options(*command, arguments->entry);
  command->add_option("--property", arguments->properties, "only these properties (default: all, round-robin)")
      ->check(is_property());
  arguments->check.jobs = 0;
  command->add_option(
      "--path,--way", arguments->check.path,
      "only cases that take this path through the kernel: words of its plan's path, as in 'wgmma'");
  command
      ->add_option(
          "--arithmetic", arguments->arithmetic,
          "arithmetic of the CPU executor: any, rounded as each case's schedule says, or device:h200, bit for "
          "bit; device:a100 and device:l40s are published, not proven")
      ->check(one_of("arithmetic", {std::begin(kArithmeticNames), std::end(kArithmeticNames)}))
      ->capture_default_str();
  add_draw_options(*command, *arguments);
  command->add_option("--jobs", arguments->check.jobs, "processes (with --batch threads); 0: one a core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  arguments->check.asan_every = 32;
  command
      ->add_option("--asan-every", arguments->check.asan_every,
                   "run one case in N in the build asan, if the kernel has that build; 0: none")
      ->capture_default_str();
  command
      ->add_option("--work", arguments->check.work,
                   "multiply-adds that a case may cost; by default 3 million, on a GPU 6 million")
      ->check(CLI::Range(int64_t{10000}, int64_t{1} << 40));
  command->add_option("--out", arguments->out, "folder for reproducers; those that lie there are tried first")
      ->capture_default_str();
  command->add_flag("--keep-going", arguments->check.keep_going,
                    "after a failure, look for the next of another kind (a crash after wrong numbers)");
  command->add_option("--reduce-seconds", arguments->reduce_seconds, "wall clock for reducing a failure")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  add_result_options(*command, *arguments);
  add_target_options(*command, arguments->target);
  add_peer_option(*command, arguments->target);
  add_oracle_option(*command, arguments->target);
  add_batch_option(*command, arguments->target);
  command
      ->add_option("--workers", arguments->check.workers,
                   "with --batch: the most worker processes, each with a GPU context; the jobs are threads "
                   "that share them")
      ->needs("--batch")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  add_device_options(*command, arguments->check.device_work, arguments->check.own_workers, "--own-workers");
  command->callback([&action, arguments] { action = [arguments] { return run_check(*arguments); }; });
}

}  // namespace attnfuzz
