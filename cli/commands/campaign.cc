// attnfuzz campaign: checks for hours without supervision.
#include "fuzz/campaign/run/campaign.h"

#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <thread>

#include "base/json.h"
#include "base/printable.h"
#include "cli/entry/entry.h"
#include "cli/open/campaign_targets.h"
#include "cli/open/entry_options.h"
#include "cli/options/help.h"
#include "cli/print/campaign_print.h"
#include "cli/terminal/status_line.h"
#include "cli/terminal/terminal.h"
#include "fuzz/campaign/run/prune.h"
#include "fuzz/campaign/store/machine.h"
#include "fuzz/host/kernel_registry.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

constexpr int kMostGpuThreads = 16;  // per process

struct CampaignArguments : CampaignScope {
  std::string duration = "1h", ledger;
  CampaignOptions campaign;
  std::string prune_from, prune_to;
  size_t prune_most = 200;
  bool json = false;
  EntryOptions entry;
};

// Returns the names that a ledger may use: the kernels of this installation and of this session, and all
// builds.
LedgerNames ledger_names(const CampaignArguments& arguments) {
  LedgerNames names = {arguments.kernels, build_kind_names()};
  for (const KernelLibrary& library : our_kernels()) names.kernels.push_back(library.name);
  return names;
}

// Builds kernels that are given as sources, for one back end and one build, next to the campaign's folder.
void build_sources(CampaignArguments& arguments) {
  expect_source(arguments.kernels, arguments.entry);
  for (std::string& kernel : arguments.kernels) {
    if (!is_cuda_source(kernel)) continue;
    if (arguments.backends.size() > 1 || arguments.build_kinds.size() > 1)
      throw UserError("a CUDA source is built for one --backend and one --build: give one of each");
    TargetOptions options = arguments.target;
    options.backend = arguments.backends.front();
    options.build_kind = arguments.build_kinds.front();
    const fs::path folder = fs::absolute(arguments.campaign.dir).lexically_normal();
    kernel = library_of_source(kernel, arguments.entry, options, folder.parent_path().string());
  }
}

Exit prune_corpus_of(CampaignArguments arguments) {
  arguments.no_seeded_bug = true;
  if (arguments.prune_to.empty()) throw UserError("--prune needs a folder to write to: --to FOLDER");
  if (!read_header(arguments.prune_from)) throw UserError(arguments.prune_from + " holds no campaign");
  const PruneResult pruned =
      prune(arguments.prune_from, targets_of(arguments, arguments.campaign.finite), arguments.prune_most);
  fs::create_directories(arguments.prune_to);
  double seconds = 0;
  for (const Kept& kept : pruned.kept) {
    write_file(arguments.prune_to + "/" + kept.name + ".case.json", kept.text);
    seconds += kept.seconds;
  }
  emit(
      "{} of {} cases kept in {}: they show {} of {} things and run in {:.1f} s\n"
      "  left out: {} that fail, {} that cannot be judged, {} that every target refuses, {} that take long\n",
      pruned.kept.size(), pruned.entries, arguments.prune_to, pruned.kept_shown, pruned.shown, seconds,
      pruned.failing, pruned.unjudged, pruned.refused, pruned.slow);
  return kPassed;
}

// A sequence of calls has no features by which the ledger could choose.
void quarantine_sequences(std::vector<CampaignTarget>& targets, const Ledger& ledger) {
  for (CampaignTarget& target : targets) {
    TargetRecord& r = target.record;
    const KnownFailure* known = quarantines_some(ledger, r.kernel, r.backend, r.build_kind);
    if (!r.sequences || known == nullptr) continue;
    r.sequences = false;
    r.no_sequences = "the ledger quarantines cases of it: " + known->reason;
  }
}

// Chooses the numbers of processes and threads that the user left open. A thread that prepares batches keeps a
// core busy, like a job on the CPU.
void share_cores(CampaignOptions& options, bool batches) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int gpu_jobs = options.gpus * options.gpu_jobs;
  if (options.gpu_threads == 0)
    options.gpu_threads = gpu_jobs == 0 ? 1 : std::clamp(cores / gpu_jobs - 1, 1, kMostGpuThreads);
  const int taken = gpu_jobs * (batches ? options.gpu_threads + 1 : 1);
  if (options.jobs == 0) options.jobs = std::clamp(cores - taken, 1, 128);
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
    if (arguments.target.batch > 0)
      throw UserError("--batch: no target is on a GPU: give --backend cuda, or leave --batch out");
  }
  share_cores(options, arguments.target.batch > 0);
  options.version = ATTNFUZZ_VERSION;
  build_sources(arguments);
  if (arguments.sequences && options.finite)
    throw UserError(
        "--finite, --sequences: slots of a cache that hold no token hold NaN: leave one of the two out");
  std::vector<CampaignTarget> targets = targets_of(arguments, arguments.campaign.finite);
  quarantine_sequences(targets, options.ledger);
  if (arguments.sequences) expect_sequences(targets);

  CampaignSummary summary;
  {
    // With JSON events, no status line is needed.
    StatusLine line(is_terminal(STDERR_FILENO), arguments.json ? std::numeric_limits<double>::infinity() : 30);
    const OnEvent event = [&](const std::string& json) {
      const std::string text = arguments.json ? json : printable_lines(words_of(json_of(json), targets));
      if (text.empty()) return;
      line.clear();
      if (arguments.json) {
        emit("{}\n", text);
      } else {
        print(text + "\n");
      }
      std::fflush(stdout);
    };
    summary = run_campaign(options, targets, event, [&](const CampaignState& s) { line.show(status_of(s)); });
  }
  if (!arguments.json) print_end(summary, options.dir);
  if (!summary.unkept.empty())
    std::fprintf(stderr, "attnfuzz: coverage is missing: %s\n", printable(summary.unkept).c_str());
  for (const std::string& target : summary.not_judged)
    std::fprintf(stderr, "attnfuzz: not judged: %s\n", printable(target).c_str());
  if (summary.signal != 0 && summary.status == CampaignStatus::kPassed) {
    std::fprintf(stderr, "attnfuzz: interrupted by SIG%s: run the same command again to continue\n",
                 sigabbrev_np(summary.signal));
    return static_cast<Exit>(128 + summary.signal);
  }
  return static_cast<Exit>(summary.status);
}

void add_prune_options(CLI::App& command, CampaignArguments& arguments) {
  command
      .add_option("--prune", arguments.prune_from,
                  "run no campaign; prune the corpus of the campaign in this folder by set cover")
      ->check(CLI::ExistingDirectory)
      ->excludes("--out");
  command.add_option("--to", arguments.prune_to, "folder for the files that --prune keeps")->needs("--prune");
  command.add_option("--most", arguments.prune_most, "files that --prune keeps at most")
      ->needs("--prune")
      ->check(CLI::Range(size_t{1}, size_t{1} << 32))
      ->capture_default_str();
}

void add_draw_options(CLI::App& command, CampaignArguments& arguments) {
  command.add_option("--seed", arguments.campaign.seed, "seed of all streams of cases")
      ->check(CLI::Range(uint64_t{0}, kMostCounted))
      ->capture_default_str();
  command.add_option("--property", arguments.properties, "only these properties (default: all, round-robin)")
      ->check(is_property());
  command
      .add_flag("--sequences", arguments.sequences,
                "explore sequences of calls on a paged cache too, as attnfuzz sequence does, for kernels that "
                "append to pages, copy them or attend over them")
      ->excludes("--prune");  // the corpus has none
  command
      .add_option("--work", arguments.campaign.work,
                  "multiply-adds that a case may cost; by default 3 million, on a GPU 6 million")
      ->check(CLI::Range(int64_t{10000}, int64_t{1} << 40));
  command.add_flag("--finite", arguments.campaign.finite,
                   "draw no NaN or infinity in Q, K and V, for which the kernel promises nothing");
}

}  // namespace

void add_campaign(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "campaign", "Checks kernels for hours: explores, reduces and files what fails, resumes by itself");
  const auto arguments = std::make_shared<CampaignArguments>();
  CampaignOptions& options = arguments->campaign;
  command
      ->add_option("kernel", arguments->kernels,
                   "kernels by name, plug-ins by path, or a CUDA source (mine.cu)")
      ->required();
  add_entry_options(*command, arguments->entry);
  command->add_option("--out", options.dir, "folder of the campaign; an existing one is continued");
  add_prune_options(*command, *arguments);
  command->add_option("--backend", arguments->backends, "cpu, cuda or both")
      ->delimiter(',')
      ->check(is_backend())
      ->capture_default_str();
  command
      ->add_option("--build,--lane", arguments->build_kinds,
                   "builds for the CPU, separated by commas: plain, schedules, coverage, asan, ...")
      ->delimiter(',')
      ->check(is_build_kind())
      ->capture_default_str();
  command
      ->add_option("--for", arguments->duration,
                   "30s, 5m, 8h; a session that was broken off gets its remaining time")
      ->capture_default_str();
  options.jobs = 0;
  command->add_option("--jobs", options.jobs, "processes on the CPU; 0: one a core")
      ->check(CLI::Range(0, 128))
      ->capture_default_str();
  command->add_option("--gpus", options.gpus, "GPUs to use; 0: all")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  command->add_option("--gpu-jobs", options.gpu_jobs, "processes on each GPU: while one judges, others run")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  add_batch_option(*command, arguments->target);
  options.gpu_threads = 0;
  command
      ->add_option(
          "--gpu-threads", options.gpu_threads,
          "with --batch: batches that each of these processes makes ready, runs and compares at once; 0: "
          "as the cores allow")
      ->needs("--batch")
      ->check(CLI::Range(0, kMostGpuThreads))
      ->capture_default_str();
  add_device_options(*command, options.device_work, options.gpu_own_workers, "--gpu-own-workers");
  add_draw_options(*command, *arguments);
  command->add_option("--ledger", arguments->ledger, "file of known failures (fuzz/campaign/store/ledger.h)")
      ->check(CLI::ExistingFile);
  command->add_option("--reduce-seconds", options.reduce_seconds, "wall clock for reducing one failure")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  command
      ->add_option("--drain-seconds", options.drain_seconds,
                   "more seconds for failures that are not yet reduced when the time is up")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "events as JSON lines on standard output");
  command->add_flag("--no-seeded-bug,--no-canary", arguments->no_seeded_bug,
                    "leave out the seeded bug, which shows that the campaign finds bugs");
  add_oracle_option(*command, arguments->target,
                    "for targets on a GPU; the CPU's oracle also judges what fails and one result in a "
                    "hundred, and reduces failures without the GPU's");
  add_calibration_option(*command, arguments->target);
  add_watchdog_option(*command, arguments->target);
  add_peer_option(*command, arguments->target);
  add_stale_flag(*command, arguments->target);
  add_footer(*command, "attnfuzz campaign fa1 ./libmine.so --for 8h --out night", kCampaignExitStatuses,
             "SIGINT, SIGTERM and SIGHUP end a session early: status 130, 143 or 129 if nothing was found. "
             "attnfuzz status DIR shows its state.");
  command->callback([&action, arguments] { action = [arguments] { return start_campaign(*arguments); }; });
}

}  // namespace attnfuzz
