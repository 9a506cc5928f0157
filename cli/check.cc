// attnfuzz check: draws cases, judges them, reduces and files what fails.
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "cli/entry.h"
#include "cli/filing.h"
#include "cli/help.h"
#include "cli/print.h"
#include "cli/session.h"
#include "cli/status_line.h"
#include "cli/terminal.h"
#include "cli/terms.h"
#include "fuzz/check/cheats.h"
#include "fuzz/check/declaration.h"
#include "fuzz/check/refusals.h"
#include "fuzz/host/processes.h"
#include "properties/case/domain.h"
#include "properties/case/features/feature.h"
#include "properties/draw/afford.h"
#include "text/printable.h"

namespace attnfuzz {
namespace {

bool judged_by(const CheckResult& result, const Property& property) {
  const auto stats = result.properties.find(property.name);
  return stats != result.properties.end() && stats->second.cases > stats->second.rejected;
}

// Of fewer cases coverage says how few they are.
constexpr uint64_t kFewestToMeasure = 1000;

struct CheckArguments {
  std::vector<std::string> kernels;
  std::vector<std::string> properties;
  TargetOptions target;
  CheckOptions check;
  std::string duration, out = ".", json, junit;
  std::string arithmetic = kArithmeticNames[0];
  std::string domain;        // the caller's; empty: none
  bool finite = false;       // neither NaN nor infinity in Q, K and V
  std::string entry, takes;  // of a CUDA source
  std::vector<std::string> includes;
  double reduce_seconds = 30;
};

// How much of what it may be asked a kernel takes. Refusing is no way to pass: of the caller's domain
// nearly all is due, and of what there is at least something.
void measure_taken(Target& target, const CheckOptions& options, Checked& checked) {
  constexpr double kOfDomain = 0.95, kOfAll = 0.05;
  Aim aim;
  aim.work = 100'000;
  if (options.terms) aim.refused = options.terms->refused, aim.domain = options.terms->domain;
  const Taken asked = problems_taken(target, aim);
  const double taken = asked.share(), floor = options.terms ? kOfDomain : kOfAll;
  checked.taken = taken;
  const std::string of = options.terms ? "problems inside --domain" : "problems of all kinds";
  std::printf("  takes %.0f %% of %s\n", 100 * taken, of.c_str());
  if (taken >= floor) return;
  checked.cheat = Cheat::kRefusing;
  const auto often = std::ranges::max_element(
      asked.reasons, {}, [](const std::pair<const std::string, int>& reason) { return reason.second; });
  checked.not_judged.push_back(
      checked.kernel.name + " takes " + std::to_string(std::lround(100 * taken)) + " % of " + of +
      ", and at least " + std::to_string(std::lround(100 * floor)) +
      " % is due: a kernel that refuses does not pass; say with --domain what it must take" +
      (often == asked.reasons.end()
           ? ""
           : " (of " + std::to_string(asked.of) + " it said " + std::to_string(often->second) +
                 " times: " + printable(often->first, 200) + ")"));
}

// The same of the check's own cases: who takes everything when asked may refuse later on. Floors of the draw
// say so of many cases; this of few as well.
void measure_refused(const CheckResult& result, Checked& checked) {
  constexpr double kMost = 0.05;
  constexpr uint64_t kFewest = 20;
  uint64_t refused = 0;
  for (const auto& [reason, n] : result.rejections)
    refused += reason.find(": refused: ") != std::string::npos ? n : 0;
  const double cases = static_cast<double>(result.features.cases);
  const double chance = Classification::kByChance * std::sqrt(cases * kMost * (1 - kMost));
  if (result.features.cases < kFewest || static_cast<double>(refused) <= kMost * cases + chance) return;
  checked.cheat = Cheat::kRefusing;
  checked.not_judged.push_back(checked.kernel.name + " refused " + std::to_string(refused) + " of " +
                               std::to_string(result.features.cases) +
                               " cases inside --domain: a kernel that refuses does not pass");
}

// Of what is planted in Q, K and V.
bool has_non_finite(Case c) {
  const size_t planted = c.planted.size();
  refusal_of_several(kNonFinite)->strip(c);
  return c.planted.size() != planted;
}

Checked check_kernel(const KernelLibrary& library, const CheckArguments& arguments,
                     const Interrupts& interrupts) {
  const std::string& name = library.name;
  std::unique_ptr<Target> target = open(library, arguments.target);
  Checked checked;
  CheckResult& result = checked.result;
  checked.kernel = target->info();
  checked.measures = library.measures;
  if (checked.kernel.backend != ATTN_CPU && arguments.check.arithmetic != ATTN_ARITHMETIC_ANY)
    throw UserError("--arithmetic " + arguments.arithmetic + " is the CPU executor's: a GPU has its own");
  const std::string stem = is_plug_in(name) ? std::filesystem::path(library.path).stem().string() + "." : "";
  checked.suite = "attnfuzz." + stem + checked.kernel.name + "." + backend_name(checked.kernel.backend);
  const Calibration calibration = calibration_for(checked.kernel, arguments.target);
  std::printf("%s\n", identity_line(checked.kernel, arguments.target).c_str());
  std::printf("  bound: calibration '%s'%s; seed %llu, %d job(s)\n", calibration.name.c_str(),
              calibration.measured ? "" : " (documented, not measured)",
              (unsigned long long)arguments.check.seed, arguments.check.jobs);
  for (const Property* property : arguments.check.properties) print(expect_twin(*target, *property));
  screening_of(*target, arguments.target);  // says so where there is none
  if (checked.measures != 0) print(confinement_text(checked.measures));
  Refused& refused = checked.refused =
      arguments.check.terms ? arguments.check.terms->refused : ask_for_refusals(*target);
  const Refused by_kernel = refused;
  if (arguments.finite) refused.those.push_back(refusal_of_several(kNonFinite));

  CheckOptions options = arguments.check;
  options.refused = refused;
  options.finite = arguments.finite;
  options.batch = arguments.target.batch;
  options.interrupted = [&] { return interrupts.came(); };
  std::string silent, refused_too, infinite;
  std::erase_if(options.properties, [&](const Property* property) {
    if (speaks_of(*property, checked.kernel) && speaks_of(*property, refused)) return false;
    std::string& list = !speaks_of(*property, checked.kernel) ? silent
                        : !speaks_of(*property, by_kernel)    ? refused_too
                                                              : infinite;
    list += std::string(list.empty() ? "" : ", ") + property->name;
    return true;
  });
  if (!silent.empty()) std::printf("  left out, for this kernel has no stages: %s\n", silent.c_str());
  if (!by_kernel.nothing()) {
    std::printf("  refused by this kernel, and drawn but rarely: %s%s%s\n", in_words(by_kernel).c_str(),
                refused_too.empty() ? "" : "; left out: ", refused_too.c_str());
    if (arguments.check.terms || checked.kernel.domain) {
    } else if (!checked.kernel.refuses_late) {
      std::printf("    as a declaration of what it takes: attnfuzz limits %s\n", printable(name).c_str());
    } else if (checked.kernel.build.flags.empty()) {
      print("    as a declaration of what it takes: domain=" + as_python(declaration_of(by_kernel)) + "\n");
    }
  }
  if (arguments.finite)
    std::printf("  neither NaN nor infinity is in Q, K or V, for --finite says so%s%s\n",
                infinite.empty() ? "" : "; left out: ", infinite.c_str());
  if (options.properties.empty()) throw UserError("no property is left to judge " + name + " by");
  std::fflush(stdout);
  OpenLane open_lane;
  if (arguments.target.untrusted.empty())  // a sanitizer needs what confinement takes away
    open_lane = [&](const std::string& lane) { return open_in(lane, library, arguments.target); };
  const Filing filing = {.check = arguments.check,
                         .folder = arguments.out,
                         .reduce_seconds = arguments.reduce_seconds,
                         .untrusted = !arguments.target.untrusted.empty(),
                         .stop = options.interrupted,
                         .open_lane = open_lane};
  if (open_lane && checked.kernel.backend == ATTN_CPU && checked.kernel.lane == "plain")
    options.open_asan = [&] { return open_lane("asan"); };
  try_found_before(*target, calibration, filing, checked);
  const Aim aim = aim_at(*target, options);
  options.aim = aim;
  if (Case least; aim.domain) {
    fit(*aim.domain, least);
    const double times = static_cast<double>(exact_work(least.problem)) / static_cast<double>(aim.work);
    if (times > 1)
      std::printf("  slow: the smallest case that it must take costs %.1f times what --work allows\n", times);
  }
  if (filing.untrusted) measure_taken(*target, arguments.check, checked);
  target.reset();  // each job opens its own

  const OpenTarget open_one = [&](std::string* error) -> std::unique_ptr<Target> {
    try {
      std::unique_ptr<Target> opened = open(library, arguments.target);
      put_oracle(*opened, arguments.target);
      return opened;
    } catch (const UserError& e) {
      *error = e.what();
      return nullptr;
    }
  };
  // What a draw of the whole has is not due.
  const std::string part = !options.way.empty()            ? "cases of one way"
                           : !arguments.properties.empty() ? "cases of some properties"
                                                           : "";
  if (result.failures.empty() || options.keep_going) {
    StatusLine line;
    CheckResult drawn = check(open_one, calibration, options, [&](uint64_t done, uint64_t of, double seconds) {
      line.show(name + ": " + std::to_string(done) + (of > 0 ? " of " + std::to_string(of) : "") + " cases, " +
                std::to_string(std::lround(seconds)) + " s, " +
                std::to_string(std::lround(static_cast<double>(done) / std::max(seconds, 1e-9))) + " cases/s");
    });
    line.clear();
    for (Failure& before : result.failures) drawn.add(std::move(before));
    result = std::move(drawn);
    if (!result.interrupted) {
      for (std::string& why : not_judged(result, checked.kernel.name, refused, part.empty()))
        checked.not_judged.push_back(std::move(why));
      if (filing.untrusted && arguments.check.terms) measure_refused(result, checked);
      for (const Property* property :
           arguments.properties.empty() ? std::vector<const Property*>() : options.properties) {
        if (!judged_by(result, *property))
          checked.not_judged.push_back(checked.kernel.name + ": nothing was judged by " + property->name +
                                       ", which was asked for: ask for it alone, or for more --cases");
      }
      if (arguments.target.oracle != "cpu" && result.oracle.fast == 0)
        checked.not_judged.push_back(
            checked.kernel.name + ": the oracle on the GPU judged nothing: judge by the CPU's (--oracle cpu)");
      if (options.batch > 0 && result.screen.screened + result.screen.doubted == 0)
        checked.not_judged.push_back(
            checked.kernel.name +
            ": nothing was judged in batches: leave --batch out, or give another --property");
    }
    if (result.coverage.cases() >= kFewestToMeasure) checked.covered = measure(result.coverage, aim);
    print(properties_table(result) + check_notes(result, refused, checked.covered, part));
    const Property* const as_planned = find_property("as_planned");
    if (part.empty() && std::ranges::find(options.properties, as_planned) != options.properties.end() &&
        !judged_by(result, *as_planned))
      std::printf("  as_planned judged nothing: --property as_planned says what the plan leaves open\n");
  }
  for (const uint64_t index : result.given_up)
    std::printf("  interrupted in case %llu, which did not end by itself\n", (unsigned long long)index);
  if (!result.failures.empty() || !result.suspects.empty()) target = open(library, arguments.target);
  if (!result.suspects.empty()) file_suspects(*target, filing, checked);
  for (const std::string& file : checked.suspects)
    std::printf("see it again: %s%s\n",
                replay_line(file, command_name(checked.kernel), twin_name(*target)).c_str(),
                distrust_words(arguments.target).c_str());
  for (Failure& failure : result.failures) {
    std::unique_ptr<Target> there;  // of a case that was run in the lane asan
    if (failure.c.lane != checked.kernel.lane && failure.file.empty()) there = open_lane(failure.c.lane);
    const Filed& filed =
        checked.filed.emplace_back(file_failure(failure, there ? *there : *target, calibration, filing));
    std::printf("\nreplay: %s%s\n",
                replay_line(filed.reproducer, library.name, twin_name(*target), filed.before).c_str(),
                distrust_words(arguments.target).c_str());
    if (failure.verdict.kind == Kind::kNonFinite && filed.reduction && has_non_finite(filed.reduction->minimal))
      std::printf(
          "A kernel that promises nothing where Q, K or V hold NaN or infinity: check it with --finite\n");
  }
  std::fflush(stdout);
  return checked;
}

Exit run_check(CheckArguments arguments) {
  if (!arguments.duration.empty()) arguments.check.seconds = parse_duration(arguments.duration);
  if (arguments.properties.empty()) {
    arguments.check.properties.assign(properties().begin(), properties().end());
  }
  for (const std::string& name : arguments.properties)
    arguments.check.properties.push_back(&property_named(name));
  if (!arguments.target.untrusted.empty() && arguments.target.batch > 0)
    throw UserError(
        "--batch judges in the kernel's own process, and --untrusted is for kernels that may change that: "
        "leave one out");
  arguments.check.arithmetic = arguments.target.arithmetic = *arithmetic_named(arguments.arithmetic);
  if (arguments.properties.empty() && arguments.check.arithmetic != ATTN_ARITHMETIC_ANY)
    arguments.check.properties.push_back(find_property("as_planned"));
  if (!arguments.domain.empty()) arguments.check.terms = parse_domain(arguments.domain);
  if (arguments.check.jobs == 0) arguments.check.jobs = std::max(1u, std::thread::hardware_concurrency());

  if (!arguments.entry.empty() && !std::ranges::any_of(arguments.kernels, is_cuda_source))
    throw UserError("--entry says how the function of a CUDA source is called: name the source, mine.cu");
  for (std::string& kernel : arguments.kernels) {
    if (!is_cuda_source(kernel)) continue;
    kernel = build_entry({.source = kernel,
                          .call = arguments.entry,
                          .takes = arguments.takes,
                          .backend = arguments.target.backend.empty() ? "cpu" : arguments.target.backend,
                          .lane = arguments.target.lane,
                          .includes = arguments.includes},
                         arguments.out);
  }
  // Before hours of work: where its results will go.
  for (const std::string& path : {arguments.json, arguments.junit}) {
    if (!path.empty() && path != "-") expect_room_for(path);
  }
  std::filesystem::path folder = std::filesystem::absolute(arguments.out);
  while (!std::filesystem::exists(folder)) folder = folder.parent_path();  // it is made when there is a failure
  expect_room_for((folder / "reproducer").string());
  const Interrupts interrupts;
  std::optional<ResultsApart> apart(std::in_place,
                                    std::initializer_list<std::string>{arguments.json, arguments.junit});
  std::vector<Checked> all;
  for (const std::string& name : arguments.kernels) {
    for (const KernelLibrary& library : libraries_of(name, arguments.target)) {
      if (!interrupts.came()) all.push_back(check_kernel(library, arguments, interrupts));
    }
  }

  // Libraries of one name in two folders are told apart as well.
  std::map<std::string, int> suites;
  for (Checked& checked : all) {
    if (const int before = suites[checked.suite]++; before > 0)
      checked.suite += "-" + std::to_string(before + 1);
  }
  apart.reset();
  if (!arguments.junit.empty()) write_to(arguments.junit, junit_xml(all));
  std::string json;
  for (const Checked& checked : all) json += check_json(arguments.check, checked);
  if (!arguments.json.empty()) write_to(arguments.json, json);
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
  return found || unjudged ? kFound : kHeld;
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("check", "Checks kernels on drawn cases; stops at the first failure of each");
  add_footer(*command, "attnfuzz check fa1 ./libmine.so --cases 5000 --out found",
             {"it held", "a failure was found, or too little was judged", kBadUseStatus},
             "129, 130 or 143: nothing was found before SIGHUP, SIGINT or SIGTERM came.");
  const auto arguments = std::make_shared<CheckArguments>();
  command
      ->add_option(
          "kernel", arguments->kernels,
          "kernels by name, plug-ins by path (./libmine.so, ./libmine.so:KERNEL), or a CUDA source (mine.cu)")
      ->required();
  CLI::Option* entry = command->add_option(
      "--entry", arguments->entry,
      "how a source's function is called: 'launch(q, k, v, o, B, H, S, D)'; names: kernels/adapter.h, Args");
  command
      ->add_option("--takes", arguments->takes,
                   "what it takes beyond what the call says: 'dim = one_of(32, 64); causal = Causal::kOnly'; "
                   "names: kernels/adapter/takes.h")
      ->needs(entry);
  command->add_option("--include", arguments->includes, "folders of its headers, beside the source's own")
      ->check(CLI::ExistingDirectory)
      ->needs(entry);
  command->add_option("--property", arguments->properties, "only these properties (default: all, round-robin)")
      ->check(is_property());
  arguments->check.jobs = 0;
  command->add_option("--way", arguments->check.way,
                      "only cases that the kernel goes this way with: words of its plan's path, as in 'wgmma'");
  command
      ->add_option(
          "--arithmetic", arguments->arithmetic,
          "of the CPU executor: any, rounded as each case's schedule says, or device:h200, bit for bit; "
          "device:a100 and device:l40s are as published, not proven")
      ->check(one_of("arithmetic", {std::begin(kArithmeticNames), std::end(kArithmeticNames)}))
      ->capture_default_str();
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
  arguments->check.asan_every = 32;
  command
      ->add_option("--asan-every", arguments->check.asan_every,
                   "one case in so many is run in the lane asan, where the kernel is built for it; 0: none")
      ->capture_default_str();
  command->add_option("--work", arguments->check.work, "multiply-adds that one case may cost")
      ->check(CLI::Range(int64_t{10000}, int64_t{1} << 40))
      ->capture_default_str();
  command->add_option("--out", arguments->out, "folder for reproducers; those that lie there are tried first")
      ->capture_default_str();
  command->add_option(
      "--domain", arguments->domain,
      "what the kernel must take: 'dim=64,128 seq<=4096 no_bias'; what it refuses inside counts "
      "against it (docs/untrusted.md)");
  command->add_flag("--finite", arguments->finite,
                    "Q, K and V hold neither NaN nor infinity: of those the kernel may make what it likes");
  command->add_flag("--keep-going", arguments->check.keep_going,
                    "after a failure, look for the next of another kind (a crash after wrong numbers)");
  command->add_option("--reduce-seconds", arguments->reduce_seconds, "wall clock for reducing a failure")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command->add_option("--json", arguments->json,
                      "write results as JSON lines to this file, - for standard output");
  command->add_option("--junit", arguments->junit, "write results as JUnit XML to this file");
  add_target_options(*command, arguments->target);
  add_twin_option(*command, arguments->target);
  add_oracle_option(*command, arguments->target);
  add_batch_option(*command, arguments->target);
  command->callback([&action, arguments] { action = [arguments] { return run_check(*arguments); }; });
}

}  // namespace attnfuzz
