// attnfuzz campaign: hours of checking that can be left alone.
#include "fuzz/campaign/run/campaign.h"

#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <set>
#include <thread>

#include "cli/help.h"
#include "cli/open_kernel.h"
#include "cli/print.h"
#include "cli/status_line.h"
#include "cli/terminal.h"
#include "fuzz/campaign/run/prune.h"
#include "fuzz/campaign/store/machine.h"
#include "fuzz/campaign/store/planted.h"
#include "fuzz/campaign/store/suspects.h"
#include "fuzz/check/refusals.h"
#include "fuzz/host/subprocess.h"
#include "text/json.h"
#include "text/printable.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

struct CampaignArguments {
  std::vector<std::string> kernels, backends = {"cpu"}, lanes = {"plain"}, properties;
  std::string duration = "1h", ledger;
  TargetOptions target;
  CampaignOptions campaign;
  std::string prune_from, prune_to;
  size_t prune_most = 200;
  bool json = false, no_canary = false;
};

// "libattn_bug-x_cpu.so:fast" -> "bug-x.fast": a kernel's name in files of the campaign.
std::string short_name(const std::string& kernel) {
  std::string name = kernel.substr(kernel.find_last_of('/') + 1);
  const size_t ending = name.find(".so");
  if (ending != std::string::npos) name.erase(ending, 3);
  for (const char* prefix : {"lib", "attn_"}) {
    if (name.starts_with(prefix) && kernel.find('/') != std::string::npos)
      name.erase(0, std::string(prefix).size());
  }
  for (const char* part : {"_cpu", "_cuda"}) {
    const size_t at = name.find(part);
    if (at != std::string::npos && kernel.find('/') != std::string::npos)
      name.erase(at, std::string(part).size());
  }
  for (char& c : name) {
    const bool keep =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (!keep) c = '.';
  }
  return name.substr(0, 80);
}

CampaignTarget target_of(const KernelLibrary& library, TargetOptions options, const std::string& folder,
                         bool finite = false) {
  options.backend = backend_name(library.backend);
  options.lane = library.lane;
  CampaignTarget target;
  const std::unique_ptr<Target> opened = open(library, options);
  target.info = opened->info();
  identity_line(target.info, options);  // refuses what is stale
  target.calibration = calibration_for(target.info, options);
  target.refused = ask_for_refusals(*opened);
  if (finite) target.refused.those.push_back(refusal_of_several(kNonFinite));
  for (const Property* property : properties()) {
    if (speaks_of(*property, target.info) && speaks_of(*property, target.refused))
      target.properties.push_back(property);
  }
  target.open = [library, options](std::string* error) -> std::unique_ptr<Target> {
    try {
      return open(library, options);
    } catch (const UserError& e) {
      *error = e.what();
      return nullptr;
    }
  };
  if (library.backend == ATTN_CPU)
    target.open_lane = [library, options, build = target.info.build](const std::string& lane) {
      return open_in(lane, library, build, options);
    };
  if (library.backend == ATTN_CUDA && options.oracle == "cuda")
    target.put_oracle = [options](Target& on, bool all) { put_oracle(on, options, all); };
  target.folder = folder;
  TargetRecord& r = target.record;
  r.name = folder + "." + options.backend + "." + options.lane;
  r.kernel = library.name;
  r.backend = options.backend;
  r.lane = options.lane;
  r.build = target.info.build.hash;
  r.worker_build = target.info.worker.hash;
  r.compiler = target.info.build.compiler;
  r.flags = target.info.build.flags;
  r.device = target.info.device;
  r.calibration = target.calibration.name;
  r.twin = twin_name(*opened);
  return target;
}

// The planted bug that a lane is there to see.
CampaignTarget canary_of(const std::string& backend, const std::string& lane, TargetOptions options) {
  const fs::path program = program_folder();
  const fs::path library = program.parent_path() / "lib" / "attnfuzz" / ("libattn_canary_" + backend + ".so");
  if (!fs::exists(library)) {
    throw UserError("the canary, " + library.string() + ", is not there: build attn_canary_" + backend +
                    ", or say --no-canary and go without its word");
  }
  const std::string kernel = planted_bug(lane).kernel;
  options.backend = backend;
  options.lane = lane;
  options.oracle = "cpu";
  CampaignTarget target = target_of(library_of(library.string() + ":" + kernel, options), options, "canary");
  target.record.canary = true;
  return target;
}

std::vector<CampaignTarget> targets_of(const CampaignArguments& arguments) {
  std::vector<CampaignTarget> targets;
  std::set<std::string> names;
  std::vector<std::pair<std::string, std::string>> where;
  for (const std::string& backend : arguments.backends) {
    if (backend == "cuda") {
      where.emplace_back(backend, "plain");
      continue;
    }
    for (const std::string& lane : arguments.lanes) where.emplace_back(backend, lane);
  }
  for (const auto& [backend, lane] : where) {
    TargetOptions options = arguments.target;
    options.backend = backend;
    options.lane = lane;
    // Without a sanitizer a lane that is compiled for itself, to count edges, checks what plain does.
    const Lane* row = find_lane(lane);
    const bool as_plain = row != nullptr && row->kind == Lane::kBuilt && !row->sanitizer();
    const std::string canary_lane = as_plain ? "plain" : lane;
    if (!arguments.no_canary && names.insert("canary." + backend + "." + canary_lane).second)
      targets.push_back(canary_of(backend, canary_lane, options));
    for (const std::string& kernel : arguments.kernels) {
      for (const KernelLibrary& library : libraries_of(kernel, options)) {
        CampaignTarget target =
            target_of(library, options, short_name(library.name), arguments.campaign.finite);
        for (const std::string& name : arguments.properties) {
          const Property& property = property_named(name);
          if (std::ranges::find(properties(), &property) != properties().end()) continue;
          print(expect_twin(*open(library, options), property));
          target.properties.push_back(&property);
        }
        if (!names.insert(target.record.name).second)
          throw UserError("two kernels would both be called " + target.record.name + ": rename a library");
        target.record.properties = arguments.properties;
        if (!arguments.properties.empty()) {
          std::erase_if(target.properties, [&](const Property* p) {
            return std::ranges::find(arguments.properties, p->name) == arguments.properties.end();
          });
        }
        if (target.properties.empty()) throw UserError("no property is left to judge " + kernel + " by");
        targets.push_back(std::move(target));
      }
    }
  }
  return targets;
}

std::string clock_text(double seconds) {
  char text[32];
  const long s = static_cast<long>(seconds);
  std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  return text;
}

// What matters most comes first: a narrow terminal cuts the end off.
std::string status_of(const CampaignState& s) {
  char text[400];
  std::snprintf(text, sizeof text,
                "%s, %s left%s: %zu finding(s), %llu to reduce; %llu cases, %.0f/s; corpus %llu, signals %llu, "
                "coverage %llu",
                clock_text(s.t).c_str(), clock_text(s.left).c_str(),
                s.disk_full  ? ", DISK FULL, waiting"
                : s.draining ? ", ending"
                             : "",
                s.findings, (unsigned long long)s.waiting, (unsigned long long)s.cases, s.cases_per_second,
                (unsigned long long)s.corpus, (unsigned long long)s.signals, (unsigned long long)s.coverage);
  return text;
}

// An event for a person; empty if it says nothing that the end does not say.
std::string words_of(const Json& e, const std::vector<CampaignTarget>& targets) {
  const std::string event = e.at("event"), t = "[" + clock_text(e.at("t")) + "] ";
  if (event == "start") {
    std::string text =
        t + "campaign in " + e.at("dir").get<std::string>() + ", " + clock_text(e.at("seconds")) + " to go:";
    for (const auto& target : e.at("targets")) text += " " + target.get<std::string>();
    for (const auto& note : e.at("notes")) text += "\n  " + note.get<std::string>();
    return text;
  }
  if (event == "finding") {
    const std::string known = e.at("tolerated"), of = e.at("target");
    const auto found = std::ranges::find_if(targets, [&](const auto& x) { return x.record.name == of; });
    const std::string kernel = found == targets.end() ? "" : found->record.kernel;
    const std::string twin = found == targets.end() ? "" : found->record.twin;
    return t + (known.empty() ? "FINDING " : "known: ") + e.at("name").get<std::string>() + " (" +
           e.at("target").get<std::string>() + ", " + e.at("repeats").get<std::string>() + ")\n  " +
           e.at("minimal").get<std::string>() + "\n  " + e.at("message").get<std::string>() +
           (known.empty() ? "" : "\n  " + known) +
           "\n  replay: " + replay_line(e.at("file").get<std::string>(), kernel, twin);
  }
  if (event == "tolerated") {
    const std::string what = e.at("what");
    return what.empty() ? "" : t + what;
  }
  if (event == "restart") return t + "a job was started anew: " + e.at("why").get<std::string>();
  if (event == "given-up")
    return t + e.at("target").get<std::string>() + " is given up: " + e.at("why").get<std::string>();
  if (event == "disk-full")
    return t + "the disk is full (" + e.at("dir").get<std::string>() + "): " + e.at("what").get<std::string>();
  if (event == "disk-has-room") return t + "there is room again";
  return "";
}

void print_end(const CampaignSummary& s, const std::string& dir) {
  size_t known = 0;
  for (const Finding& f : s.findings.findings) known += !f.tolerated.empty();
  std::printf("\nended: %s; %zu finding(s), %zu known, %zu never seen again, %zu still to reduce\n",
              s.ended.c_str(), s.findings.findings.size() - known, known, s.findings.never_again.size(),
              s.waiting);
  for (const auto* list : {&s.findings.findings, &s.findings.never_again}) {
    for (const Finding& f : *list) {
      print("  " + printable(f.name) + " x" + std::to_string(f.count) + " " + to_string(f.repeats) +
            (f.tolerated.empty() ? "" : printable(", known: " + f.tolerated)) + "\n    " +
            printable(f.minimal) + "\n    " + printable(f.message) + "\n");
    }
  }
  for (const Canary& c : s.canaries) {
    if (c.found) {
      std::printf("canary %s: found within %llu cases\n", c.target.c_str(), (unsigned long long)c.cases);
    } else {
      std::printf(
          "canary %s: NOT FOUND (%s): the harness is broken, and what it says of other kernels means nothing\n",
          printable(c.target).c_str(), printable(c.message).c_str());
    }
  }
  for (const auto& [target, stats] : stats_of(dir)) {
    if (!stats.oracle.device.empty()) print(printable(target) + ":\n" + oracle_text(stats.oracle));
  }
  std::vector<std::string> unread;
  for (const SuspectFile& suspect : read_suspects(dir, &unread))
    print("suspicious, no finding: " + printable(suspect.r.message) +
          "\n  replay: " + replay_line(suspect.file, suspect.r.kernel, suspect.r.twin) + "\n");
  if (s.canaries.empty()) std::printf("no canary was run: nothing shows that this campaign finds bugs\n");
  std::printf("%s\n", dir.c_str());
}

// What a ledger may speak of: all that there is here and that this session has.
LedgerNames ledger_names(const CampaignArguments& arguments) {
  LedgerNames names = {arguments.kernels, lane_names()};
  for (const KernelLibrary& library : our_kernels()) names.kernels.push_back(library.name);
  return names;
}

Exit prune_corpus_of(CampaignArguments arguments) {
  arguments.no_canary = true;
  if (arguments.prune_to.empty()) throw UserError("--prune needs a folder to write to: --to FOLDER");
  if (!read_header(arguments.prune_from)) throw UserError(arguments.prune_from + " holds no campaign");
  const PruneResult pruned = prune(arguments.prune_from, targets_of(arguments), arguments.prune_most);
  fs::create_directories(arguments.prune_to);
  double seconds = 0;
  for (const Kept& kept : pruned.kept) {
    write_file(arguments.prune_to + "/" + kept.name + ".case.json", kept.text);
    seconds += kept.seconds;
  }
  std::printf(
      "%zu of %zu cases kept in %s: they show %zu of %zu things and run in %.1f s\n"
      "  left out: %zu that fail, %zu that take long\n",
      pruned.kept.size(), pruned.entries, arguments.prune_to.c_str(), pruned.kept_shown, pruned.shown, seconds,
      pruned.failing, pruned.slow);
  return kHeld;
}

Exit start_campaign(CampaignArguments arguments) {
  if (!arguments.prune_from.empty()) return prune_corpus_of(arguments);
  if (arguments.campaign.dir.empty()) throw UserError("say where the campaign's folder is to be: --out DIR");
  CampaignOptions& options = arguments.campaign;
  options.seconds = parse_duration(arguments.duration);
  if (!arguments.ledger.empty()) options.ledger = read_ledger(arguments.ledger, ledger_names(arguments));
  const auto has = [&](const char* backend) {
    return std::ranges::find(arguments.backends, backend) != arguments.backends.end();
  };
  if (has("cuda")) {
    const int there = static_cast<int>(visible_gpus().size());
    if (there == 0) throw UserError("there is no GPU here: leave out --backend cuda");
    options.gpus = options.gpus == 0 ? there : std::min(options.gpus, there);
  } else {
    options.gpus = 0;
    if (arguments.target.oracle == "cuda")
      throw UserError("--oracle cuda: no target is on a GPU: give --backend cuda, or leave --oracle out");
  }
  if (options.jobs == 0) {
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    options.jobs = std::clamp(cores - options.gpus * options.gpu_jobs, 1, 128);
  }
  options.version = ATTNFUZZ_VERSION;
  const std::vector<CampaignTarget> targets = targets_of(arguments);

  CampaignSummary summary;
  {
    // Events as JSON tell of the state themselves.
    StatusLine line(is_terminal(STDERR_FILENO), arguments.json ? std::numeric_limits<double>::infinity() : 30);
    const OnEvent event = [&](const std::string& json) {
      const std::string text = arguments.json ? json : printable_lines(words_of(json_of(json), targets));
      if (text.empty()) return;
      line.clear();
      if (arguments.json) {
        std::printf("%s\n", text.c_str());
      } else {
        print(text + "\n");
      }
      std::fflush(stdout);
    };
    summary = run_campaign(options, targets, event, [&](const CampaignState& s) { line.show(status_of(s)); });
  }
  if (!arguments.json) print_end(summary, options.dir);
  if (!summary.unkept.empty())
    std::fprintf(stderr, "attnfuzz: what was met is not kept: %s\n", printable(summary.unkept).c_str());
  for (const std::string& target : summary.not_judged)
    std::fprintf(stderr, "attnfuzz: not judged: %s\n", printable(target).c_str());
  if (summary.signal != 0 && summary.standing == Standing::kHeld) {
    std::fprintf(stderr, "attnfuzz: interrupted by SIG%s: the same command goes on\n",
                 sigabbrev_np(summary.signal));
    return static_cast<Exit>(128 + summary.signal);
  }
  return static_cast<Exit>(summary.standing);
}

}  // namespace

void add_campaign(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "campaign", "Checks kernels for hours: explores, reduces and files what fails, resumes by itself");
  const auto arguments = std::make_shared<CampaignArguments>();
  CampaignOptions& options = arguments->campaign;
  command->add_option("kernel", arguments->kernels, "kernels by name, or plug-ins by path")->required();
  command->add_option("--out", options.dir, "folder of the campaign; one that is there is gone on with");
  command
      ->add_option("--prune", arguments->prune_from,
                   "instead of a campaign: prunes the corpus of the one in this folder by set cover")
      ->check(CLI::ExistingDirectory)
      ->excludes("--out");
  command->add_option("--to", arguments->prune_to, "folder for the files that --prune keeps")->needs("--prune");
  command->add_option("--most", arguments->prune_most, "files that --prune keeps at most")
      ->needs("--prune")
      ->check(CLI::Range(size_t{1}, size_t{1} << 32))
      ->capture_default_str();
  command->add_option("--backend", arguments->backends, "cpu, cuda or both")
      ->delimiter(',')
      ->check(is_backend())
      ->capture_default_str();
  command
      ->add_option("--lane", arguments->lanes,
                   "lanes of the CPU, by commas: plain, schedules, coverage, asan, ...")
      ->delimiter(',')
      ->check(is_lane())
      ->capture_default_str();
  command
      ->add_option("--for", arguments->duration,
                   "30s, 5m, 8h; a session that was broken off lasts what it still had")
      ->capture_default_str();
  options.jobs = 0;
  command->add_option("--jobs", options.jobs, "processes on the CPU; 0: one a core")
      ->check(CLI::Range(0, 128))
      ->capture_default_str();
  command->add_option("--gpus", options.gpus, "GPUs to use; 0: all")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  command->add_option("--gpu-jobs", options.gpu_jobs, "processes on each GPU: while one judges, another runs")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  command->add_option("--seed", options.seed, "of all streams of cases")
      ->check(CLI::Range(uint64_t{0}, kMostCounted))
      ->capture_default_str();
  command->add_option("--property", arguments->properties, "only these properties (default: all, round-robin)")
      ->check(is_property());
  command->add_option("--work", options.work, "multiply-adds that one case may cost")
      ->check(CLI::Range(int64_t{10000}, int64_t{1} << 40))
      ->capture_default_str();
  command->add_flag("--finite", options.finite,
                    "Q, K and V hold neither NaN nor infinity: of those the kernel may make what it likes");
  command->add_option("--ledger", arguments->ledger, "file of known failures (fuzz/campaign/store/ledger.h)")
      ->check(CLI::ExistingFile);
  command->add_option("--reduce-seconds", options.reduce_seconds, "wall clock for reducing one failure")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  command
      ->add_option("--drain-seconds", options.drain_seconds,
                   "for failures still to be reduced when the time is up")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "events as JSON lines on standard output");
  command->add_flag("--no-canary", arguments->no_canary,
                    "without the planted bug that shows the campaign finds any");
  add_oracle_option(*command, arguments->target,
                    "of targets on a GPU; what fails by it, and one result in a hundred, is judged by the "
                    "CPU's too, and what fails is reduced by that alone");
  add_calibration_option(*command, arguments->target);
  add_watchdog_option(*command, arguments->target);
  add_twin_option(*command, arguments->target);
  add_stale_flag(*command, arguments->target);
  add_footer(*command, "attnfuzz campaign fa1 ./libmine.so --for 8h --out night", kStandingStatuses,
             "SIGINT, SIGTERM and SIGHUP end a session early, and well: 130, 143 or 129 if nothing was found. "
             "attnfuzz status DIR says how one stands.");
  command->callback([&action, arguments] { action = [arguments] { return start_campaign(*arguments); }; });
}

}  // namespace attnfuzz
