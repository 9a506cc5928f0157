#include "cli/check/check_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "base/printable.h"
#include "base/processes.h"
#include "cli/check/filing.h"
#include "cli/options/terms.h"
#include "cli/terminal/status_line.h"
#include "cli/terminal/terminal.h"
#include "fuzz/check/declaration.h"
#include "fuzz/check/exploits.h"
#include "fuzz/check/refusals.h"
#include "fuzz/check/tighter.h"
#include "properties/case/domain.h"
#include "properties/case/feature.h"
#include "properties/draw/afford.h"

namespace attnfuzz {
namespace {

bool judged_by(const CheckResult& result, const Property& property) {
  const auto stats = result.properties.find(property.name);
  return stats != result.properties.end() && stats->second.cases > stats->second.rejected;
}

// The coverage of fewer cases would only say how few they are.
constexpr uint64_t kFewestToMeasure = 1000;
// The fewest cases after which tighter bounds are tried.
constexpr uint64_t kFewestToTighten = 200;

// Measures how many of the problems that it may be asked a kernel takes. Refusing is no way to pass: nearly all
// of the caller's domain is due, or at least a part of all problems.
void measure_taken(Target& target, const CheckOptions& options, Checked& checked) {
  constexpr double kOfDomain = 0.95, kOfAll = 0.05;
  GeneratorConfig config;
  config.work = 100'000;
  if (options.terms) config.refused = options.terms->refused, config.domain = options.terms->domain;
  const Taken asked = problems_taken(target, config);
  const double taken = asked.share(), floor = options.terms ? kOfDomain : kOfAll;
  checked.taken = taken;
  const std::string of = options.terms ? "problems inside --domain" : "problems of all kinds";
  std::printf("  takes %.0f %% of %s\n", 100 * taken, of.c_str());
  if (taken >= floor) return;
  checked.exploit = Exploit::kRefusing;
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
  const double cases = static_cast<double>(result.features.cases);
  const double chance = Classification::kByChance * std::sqrt(cases * kMost * (1 - kMost));
  if (result.features.cases < kFewest || static_cast<double>(result.refused) <= kMost * cases + chance) return;
  checked.exploit = Exploit::kRefusing;
  checked.not_judged.push_back(checked.kernel.name + " refused " + std::to_string(result.refused) + " of " +
                               std::to_string(result.features.cases) +
                               " cases inside --domain: a kernel that refuses does not pass");
}

// A slow kernel is asked little, and must not pass for that.
void measure_pace(const CheckResult& result, double seconds, Checked& checked) {
  constexpr double kFewest = 50, kFewestASecond = 5;
  uint64_t judged = 0;
  for (const auto& [name, of] : result.properties) judged += of.passed + of.failed;
  if (static_cast<double>(judged) >= std::min(kFewest, kFewestASecond * seconds)) return;
  checked.not_judged.push_back(
      "of " + checked.kernel.name + " " + std::to_string(judged) +
      " cases were judged in the time that it was given: too few to say anything; give it "
      "more time, or a --domain of smaller problems");
}

// True if NaN or an infinity is planted in Q, K or V.
bool has_non_finite(Case c) {
  const size_t planted = c.planted.size();
  refusal_of_several(Limit::kFinite)->strip(c);
  return c.planted.size() != planted;
}

// --domain narrows what a trusted kernel declares. For an untrusted kernel it replaces the declaration.
CheckArguments within_domain(CheckArguments arguments, const KernelLibrary& library) {
  if (arguments.check.terms && arguments.target.untrusted.empty())
    arguments.check.terms = narrowed(*arguments.check.terms, open(library, arguments.target)->info());
  return arguments;
}

// The refusals of which only a few cases are drawn. Under --domain these are what the domain leaves out, and
// those refusals of a trusted kernel that the words in --domain do not name.
Refused refused_of(Target& target, const CheckArguments& arguments) {
  const std::optional<Terms>& terms = arguments.check.terms;
  if (!terms) return ask_for_refusals(target);
  if (!arguments.target.untrusted.empty()) return terms->refused;
  return with_unspoken(terms->refused, parse_domain(arguments.domain).domain, ask_for_refusals(target));
}

// Why the drawn cases are no pass, though none failed. `whole`: every property was judged by.
void collect_not_judged(const CheckArguments& arguments, const CheckOptions& options, bool whole,
                        Checked& checked) {
  const CheckResult& result = checked.result;
  const std::string& kernel = checked.kernel.name;
  const bool untrusted = !arguments.target.untrusted.empty();
  for (std::string& why : not_judged(result, kernel, checked.refused, whole))
    checked.not_judged.push_back(std::move(why));
  if (untrusted && arguments.check.terms) measure_refused(result, checked);
  if (untrusted && options.seconds > 0 && result.failures.empty())
    measure_pace(result, options.seconds, checked);
  const auto lacks = [&](const std::string& why) { checked.not_judged.push_back(kernel + ": " + why); };
  if (!arguments.properties.empty()) {
    for (const Property* property : options.properties) {
      if (!judged_by(result, *property))
        lacks(std::string("nothing was judged by ") + property->name +
              ", which was asked for: ask for it alone, or for more --cases");
    }
  }
  if (arguments.target.oracle != "cpu" && result.oracle.fast == 0)
    lacks("the oracle on the GPU judged nothing: judge by the CPU's (--oracle cpu)");
  if (options.batch > 0 && result.batch.cleared + result.batch.doubted == 0)
    lacks("nothing was judged in batches: leave --batch out, or give another --property");
}

// Tells whether a kernel that says nothing of its arithmetic could say that it is fp32's, which assumption
// costs what was not judged, and what to write.
void try_tighter(Target& target, const GeneratorConfig& config, const Calibration& calibration,
                 const CheckArguments& arguments, Checked& checked) {
  const CheckResult& result = checked.result;
  if (!arguments.target.untrusted.empty() || checked.kernel.refuses_late) return;
  if (!leaves_fp32_open(result.assumptions)) return;
  if (result.features.cases < kFewestToTighten && checked.not_judged.empty()) return;
  const bool entry = !arguments.entry.call.empty();
  const Tighter tighter = try_fp32(target, config, calibration);
  std::string text = words(tighter);
  if (tighter.consistent()) {
    text += entry ? "; if it is in fp32, --takes 'in_fp32 = true' holds it to that"
                  : "; if it is in fp32, let it say so: in_fp32 = true in Takes, or accumulator, exp_class, "
                    "scale_mode and p_format in plan()";
  }
  print("  " + text + "\n");
  const KeyTiles& tiles = checked.tiles ? *checked.tiles : KeyTiles{};
  const bool other_tile = entry && tiles.shown > 0 && tiles.shown != tiles.keys;
  const std::string tile = other_tile ? "; tile = " + std::to_string(tiles.shown) : "";
  if (other_tile)
    print("  its output shows tiles of " + std::to_string(tiles.shown) +
          " keys: --takes 'tile = " + std::to_string(tiles.shown) + "'\n");
  if (checked.not_judged.empty() || tighter.costs.empty()) return;
  std::string costs = checked.kernel.name + ": of " + std::to_string(tighter.cases) + " cases " +
                      std::to_string(tighter.uninformative) + " were uninformative, " +
                      std::to_string(tighter.without) + " without what was assumed: " + tighter.costs;
  if (tighter.consistent())
    costs += entry
                 ? "; if it computes in fp32, with which its errors are consistent, say --takes '" +
                       arguments.entry.takes + (arguments.entry.takes.empty() ? "" : "; ") + "in_fp32 = true" +
                       tile + "'" + (other_tile ? "" : ", and tile = N if its tiles are not of 64 keys")
                 : "; if it computes in fp32, with which its errors are consistent, let it say so: in_fp32 = "
                   "true in Takes, or the classes in plan()";
  checked.not_judged.push_back(costs);
}

// If a launch was refused for its shared memory: the bytes a block of the least device that could run it. 0: it
// is another failure.
int64_t device_for(const Verdict& verdict) {
  if (!verdict.fault || verdict.fault->kind != ATTN_REPORT_LAUNCH || verdict.fault->shared_bytes <= 0) return 0;
  const auto device = std::ranges::lower_bound(kSharedOfDevices, verdict.fault->shared_bytes);
  return device == std::end(kSharedOfDevices) ? 0 : *device;
}

// Says what to declare if the kernel does not promise to get the failing case right.
void print_advice(const Failure& failure, const Filed& filed) {
  if (!filed.reduction) return;
  const Case& minimal = filed.reduction->minimal;
  if (failure.verdict.kind == Kind::kNonFinite && has_non_finite(minimal))
    std::printf(
        "A kernel that promises nothing where Q, K or V hold NaN or infinity: check it with --finite\n");
  if (const int64_t shared = device_for(filed.reduction->verdict); shared > 0)
    std::printf(
        "A kernel for devices with more shared memory: let it refuse the others (Takes: shared = %lld; in "
        "plan(): "
        "env.shared_memory_limit)\n",
        static_cast<long long>(shared));
  if (minimal.problem.scale <= 0)
    std::printf(
        "A kernel that promises nothing of a scale of 0 or below: let it refuse one (Takes: scale = "
        "Scale::kPositive; Domain: scale=\"positive\")\n");
}

}  // namespace

Checked check_kernel(const KernelLibrary& library, const CheckArguments& given, const Interrupts& interrupts) {
  const CheckArguments arguments = within_domain(given, library);
  const std::string& name = library.name;
  const auto open_on_terms = [&] {
    std::unique_ptr<Target> opened = open(library, arguments.target);
    if (arguments.check.terms) opened->terms = arguments.check.terms->domain;
    return opened;
  };
  std::unique_ptr<Target> target = open_on_terms();
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
  if (!checked.kernel.note.empty()) print("  note: " + checked.kernel.note + "\n");
  for (const Property* property : arguments.check.properties) print(expect_peer(*target, *property));
  batch_target_of(*target, arguments.target);  // says so where there is none
  if (checked.measures != 0) print(confinement_text(checked.measures));
  Refused& refused = checked.refused = refused_of(*target, arguments);
  const Refused by_kernel = refused;
  if (arguments.check.finite) refused.those.push_back(refusal_of_several(Limit::kFinite));

  CheckOptions options = arguments.check;
  options.refused = refused;
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
  if (arguments.check.finite)
    std::printf("  neither NaN nor infinity is in Q, K or V, for --finite says so%s%s\n",
                infinite.empty() ? "" : "; left out: ", infinite.c_str());
  if (options.properties.empty()) throw UserError("no property is left to judge " + name + " by");
  std::fflush(stdout);
  OpenLane open_lane;
  if (arguments.target.untrusted.empty())  // a sanitizer needs what confinement takes away
    open_lane = [&](const std::string& lane) {
      return open_in(lane, library, checked.kernel.build, arguments.target);
    };
  const Filing filing = {.check = arguments.check,
                         .folder = arguments.out,
                         .reduce_seconds = arguments.reduce_seconds,
                         .untrusted = !arguments.target.untrusted.empty(),
                         .stop = options.interrupted,
                         .open_lane = open_lane};
  if (open_lane && checked.kernel.backend == ATTN_CPU && checked.kernel.lane == "plain")
    options.open_asan = [&] { return open_lane("asan"); };
  try_found_before(*target, calibration, filing, checked);
  const GeneratorConfig config = config_for(*target, options);
  options.config = config;
  if (Case least; config.domain) {
    fit(*config.domain, least);
    const double times = static_cast<double>(exact_work(least.problem)) / static_cast<double>(config.work);
    if (times > 1)
      std::printf("  slow: the smallest case that it must take costs %.1f times what --work allows\n", times);
  }
  if (filing.untrusted) measure_taken(*target, arguments.check, checked);
  target.reset();  // each job opens its own

  const OpenTarget open_one = [&](std::string* error) -> std::unique_ptr<Target> {
    try {
      std::unique_ptr<Target> opened = open_on_terms();
      put_oracle(*opened, arguments.target);
      return opened;
    } catch (const UserError& e) {
      *error = e.what();
      return nullptr;
    }
  };
  // The floors of a whole draw do not apply to a part.
  const std::string part = !options.path.empty()           ? "cases of one path"
                           : !arguments.properties.empty() ? "cases of some properties"
                                                           : "";
  if (result.failures.empty() || options.keep_going) {
    StatusLine line;
    CheckResult drawn = check(open_one, calibration, options, [&](uint64_t done, uint64_t of, double seconds) {
      line.show(progress_line(checked.kernel.name, done, of, seconds, options.seconds));
    });
    line.clear();
    for (Failure& before : result.failures) drawn.add(std::move(before));
    result = std::move(drawn);
    result.features.reach = reach_in_domain(config);
    if (!result.interrupted) collect_not_judged(arguments, options, part.empty(), checked);
    if (result.coverage.cases() >= kFewestToMeasure) checked.covered = measure(result.coverage, config);
    if (result.failures.empty() && !result.interrupted) {
      // A function of Python may take long to load; its tiles are a word of its caller's.
      checked.tiles = checked.kernel.refuses_late ? KeyTiles{config.tiles_q.front(), config.tiles_k.front()}
                                                  : show_key_tiles(*open_on_terms(), config.domain);
      if (const KeyTiles& tiles = *checked.tiles; !tiles.broken.empty())
        checked.not_judged.push_back(checked.kernel.name + ": asked for its tiles by a simple case, " +
                                     tiles.broken + ": check it with --domain '" + tiles.sizes + "'");
    }
    print(properties_table(result) + check_notes(result, refused, checked.covered, part));
    if (checked.tiles) print("  " + words(*checked.tiles) + "\n");
    if (result.failures.empty() && !result.interrupted)
      try_tighter(*open_on_terms(), config, calibration, arguments, checked);
    if (arguments.census) print(text(result.census));
    const Property* const bit_exact = find_property("bit_exact");
    if (part.empty() && std::ranges::find(options.properties, bit_exact) != options.properties.end() &&
        !judged_by(result, *bit_exact))
      std::printf("  bit_exact judged nothing: --property bit_exact says what the plan leaves open\n");
  }
  for (const uint64_t index : result.given_up)
    std::printf("  interrupted in case %llu, which did not end by itself\n", (unsigned long long)index);
  if (!result.failures.empty() || !result.warnings.empty()) target = open_on_terms();
  if (!result.warnings.empty()) file_warnings(*target, filing, checked);
  for (const std::string& file : checked.warnings)
    std::printf("see it again: %s%s\n",
                replay_line(file, command_name(checked.kernel), peer_name(*target)).c_str(),
                distrust_words(arguments.target).c_str());
  for (Failure& failure : result.failures) {
    std::unique_ptr<Target> there;  // of a case that was run in the lane asan
    if (failure.c.lane != checked.kernel.lane && failure.file.empty()) there = open_lane(failure.c.lane);
    Filed& filed =
        checked.filed.emplace_back(file_failure(failure, there ? *there : *target, calibration, filing));
    filed.replay = replay_line(filed.reproducer, library.name, peer_name(*target), filed.before) +
                   distrust_words(arguments.target);
    std::printf("\nreplay: %s\n", filed.replay.c_str());
    print_advice(failure, filed);
  }
  std::fflush(stdout);
  return checked;
}

}  // namespace attnfuzz
