// attnfuzz nsa: runs native sparse attention from end to end on kernels of its stages, and judges each call and
// the whole.
#include <fmt/format.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <map>

#include "base/printable.h"
#include "base/processes.h"
#include "cli/check/given_failure.h"
#include "cli/check/no_pass.h"
#include "cli/open/stages.h"
#include "cli/options/again.h"
#include "cli/options/help.h"
#include "cli/terminal/status_line.h"
#include "cli/terminal/terminal.h"
#include "properties/nsa/whole.h"

namespace attnfuzz::nsa {
namespace {

struct NsaArguments : FilingOptions {
  NsaArguments() { out = "found"; }
  std::vector<std::string> kernels;
  uint64_t cases = 20, seed = 1;
  int64_t tokens = 100;
  std::optional<Blocks> blocks;
};

// Reads "16,32,64".
Blocks read_blocks(const std::string& text) {
  constexpr int64_t kMost = 512;
  Blocks blocks = {};
  int used = 0;
  const int read = std::sscanf(text.c_str(), "%" SCNd64 ",%" SCNd64 ",%" SCNd64 "%n", &blocks.step,
                               &blocks.length, &blocks.chosen, &used);
  const auto fits = [](int64_t n) { return n >= 1 && n <= kMost; };
  const bool whole = read == 3 && static_cast<size_t>(used) == text.size();
  if (!whole || !fits(blocks.step) || !fits(blocks.length) || !fits(blocks.chosen))
    throw CLI::ValidationError(
        "--blocks", fmt::format("{} is not STEP,LENGTH,CHOSEN: three numbers from 1 to {}", text, kMost));
  return blocks;
}

class NsaCheck {
 public:
  NsaCheck(const NsaArguments& arguments, const CLI::App& command) : arguments_(arguments), command_(command) {
    open_all();
  }

  Exit run() {
    const auto start = std::chrono::steady_clock::now();
    for (uint64_t n = 0; n < arguments_.cases && !interrupts_.came(); ++n) {
      line_.show(fmt::format("nsa: {} of {} cases", n, arguments_.cases));
      const uint64_t seed = arguments_.seed + n;
      Sizes sizes = draw_sizes(seed, arguments_.tokens, arguments_.blocks);
      fit_domains(kernels_, &sizes);
      const Judged one = judge_chain(sizes, draw_inputs(sizes, seed), kernels_);
      add(one);
      if (!one.failed()) continue;
      line_.clear();
      tell(sizes, seed, one);
      return kFound;
    }
    line_.clear();
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return conclude();
  }

 private:
  // The first kernel that has a stage's operation runs the stage. A kernel of kScore also chooses, so kChoose
  // does not run beside it.
  void open_all() {
    for (const KernelLibrary& library : libraries_of(arguments_.kernels, arguments_.target)) {
      opened_.push_back(open_kernel(library, arguments_.target));
      say_identity(identity_line(opened_.back().target->info(), arguments_.target), arguments_.verbose);
    }
    of_stages_ = share_out(
        opened_, {.count = kStages,
                  .does = [](uint64_t features, size_t n) { return does(features, static_cast<Stage>(n)); },
                  .name_of = [](size_t n) { return std::string(name_of(static_cast<Stage>(n))); },
                  .all = "fa1, nsa, nsa_score, nsa_compress and nsa_combine",
                  .either = kEither});
    for (size_t n = 0; n < kStages; ++n) {
      if (of_stages_[n] == kNoKernel) {
        spare_ = static_cast<Stage>(n);
        continue;
      }
      const OpenKernel& one = opened_[of_stages_[n]];
      kernels_[n] = {one.target.get(), &one.calibration};
    }
    dense_only_ = takes_no_packed(kernels_);
  }

  // True if the kernel runs a stage. If it does not, earlier kernels do all stages that it could do.
  bool runs(size_t kernel) const { return std::ranges::count(of_stages_, kernel) > 0; }

  void add(const Judged& one) {
    if (!one.refused.empty()) ++left_out_[one.refused], ++refused_;
    cases_ += one.refused.empty();
    if (!one.packed_refused.empty()) ++packed_left_out_[one.packed_refused], ++packed_refused_;
    packed_ += one.packed;
    worst_ = std::max(worst_, one.worst), worst_whole_ = std::max(worst_whole_, one.worst_whole);
    judged_ += one.judged, open_ += one.open;
  }

  void show(const std::string& what) {
    if (what.empty())
      line_.clear();
    else
      line_.show("nsa: " + what);
  }

  std::string again(uint64_t seed) const {
    return again_line(command_, {{"--cases", "1"}, {"--seed", std::to_string(seed)}});
  }

  void tell(const Sizes& sizes, uint64_t seed, const Judged& one) {
    print(fmt::format("FAIL (nsa): {}\n  {}\n", printable(one.failure ? one.failure->message : one.wrong),
                      describe(sizes)));
    if (!one.failure) {
      print("again: " + again(seed) + "\n");
      return;
    }
    const ChainFailure& failure = *one.failure;
    const OpenKernel& kernel = opened_[of_stages_[static_cast<size_t>(failure.stage)]];
    file_given({failure.c, failure.inputs, failure.verdict,
                fmt::format("nsa in the {}", name_of(failure.stage)), again(seed), seed},
               *kernel.target, kernel.calibration, kernel.library,
               {.options = arguments_,
                .stop = [this] { return interrupts_.came(); },
                .at_work = [this](const std::string& what) { show(what); }});
  }

  // Why an untrusted kernel does not pass; empty: nothing speaks against it.
  std::string no_pass() const {
    const std::string why = unvouched(arguments_.target, refused_, cases_ + refused_, "cases");
    if (!why.empty()) return why;
    return unvouched(arguments_.target, packed_refused_, packed_ + packed_refused_,
                     "cases with packed entries");
  }

  const char* how_it_ended() const {
    if (interrupts_.came()) return "interrupted";
    if (cases_ == 0) return "none was judged";
    return no_pass().empty() ? "passed" : "no pass";
  }

  Exit conclude() {
    std::string names;
    for (size_t n = 0; n < opened_.size(); ++n) {
      if (runs(n)) names += (names.empty() ? "" : ", ") + opened_[n].target->info().name;
    }
    print(fmt::format(
        "{}: {} cases from end to end, prefill and decode at every token: {}; largest error/bound {:.3g} of "
        "a call, {:.3g} of the whole; {} elements of the whole, {} of them not judged ({:.1f} s)\n",
        names, cases_, how_it_ended(), worst_, worst_whole_, judged_ + open_, open_, seconds_));
    for (const auto& [why, n] : left_out_) print(fmt::format("  not judged: {} ({})\n", printable(why), n));
    tell_packed();
    for (size_t n = 0; n < opened_.size(); ++n) {
      if (!runs(n))
        print(fmt::format("  not run: {}, whose stages other kernels do\n", opened_[n].target->info().name));
    }
    if (spare_ == Stage::kScore)
      print("  scores of blocks: computed on the host, because none of these kernels does nsa_score\n");
    std::fflush(stdout);
    if (interrupts_.came()) {
      std::fprintf(stderr, "attnfuzz: interrupted: this is no pass\n");
      return static_cast<Exit>(128 + interrupts_.signal());
    }
    const std::string why = no_pass();
    if (!why.empty()) std::fprintf(stderr, "attnfuzz: %s\n", why.c_str());
    return cases_ > 0 && why.empty() ? kPassed : kFound;
  }

  void tell_packed() const {
    if (!dense_only_.empty()) {
      print(fmt::format("  packed prefill: left out, because {} does not take packed entries\n", dense_only_));
      return;
    }
    print(fmt::format("  packed prefill: {} of these cases\n", packed_));
    for (const auto& [why, n] : packed_left_out_)
      print(fmt::format("  packed prefill not judged: {} ({})\n", printable(why), n));
  }

  const NsaArguments arguments_;
  const CLI::App& command_;
  const Interrupts interrupts_;
  std::vector<OpenKernel> opened_;
  std::vector<size_t> of_stages_;  // the number of each stage's kernel
  Kernels kernels_;
  Stage spare_ = Stage::kScore;  // kScore or kChoose: the one that no kernel runs
  std::string dense_only_;       // takes_no_packed()
  std::map<std::string, uint64_t> left_out_, packed_left_out_;
  uint64_t cases_ = 0, refused_ = 0, packed_ = 0, packed_refused_ = 0;
  int64_t judged_ = 0, open_ = 0;
  double worst_ = 0, worst_whole_ = 0, seconds_ = 0;
  StatusLine line_;
};

}  // namespace
}  // namespace attnfuzz::nsa

namespace attnfuzz {

void add_nsa(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("nsa", "Checks native sparse attention from end to end, on kernels of its stages");
  const auto arguments = std::make_shared<nsa::NsaArguments>();
  command
      ->add_option(
          "kernels", arguments->kernels,
          "kernels by name, or plug-ins by path, that together do all stages; the first that has a "
          "stage does it. A kernel of nsa_score makes the lists; without one, the host scores and a kernel "
          "of nsa_select chooses")
      ->required();
  command->add_option("--cases", arguments->cases, "cases to run")
      ->check(CLI::Range(uint64_t{1}, kMostCounted))
      ->capture_default_str();
  command->add_option("--tokens", arguments->tokens, "the most tokens of a case")
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  command
      ->add_option_function<std::string>(
          "--blocks", [arguments](const std::string& text) { arguments->blocks = nsa::read_blocks(text); },
          "keys from one compressed block to the next, keys of such a block, and keys of a chosen block "
          "(drawn)")
      ->type_name("STEP,LENGTH,CHOSEN");
  command->add_option("--seed", arguments->seed, "seed of the first case; each further case has the next seed")
      ->check(CLI::Range(uint64_t{0}, kMostCounted))
      ->capture_default_str();
  add_filing_options(*command, *arguments, "what the libraries are, and all lines of a failure");
  add_footer(*command, "attnfuzz nsa fa1 nsa nsa_score nsa_compress nsa_combine --cases 100",
             {"all of them passed", "one failed, none was judged, or one was left out under --untrusted",
              kBadUseStatus},
             "129, 130 or 143: nothing was found before SIGHUP, SIGINT or SIGTERM came.");
  command->callback([&action, arguments, command] {
    action = [arguments, command] { return nsa::NsaCheck(*arguments, *command).run(); };
  });
}

}  // namespace attnfuzz
