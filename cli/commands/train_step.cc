// attnfuzz train-step: runs two training steps on a forward and a backward kernel, or on kernels of native
// sparse attention and of its gradients.
#include "properties/train_step/train_step.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <set>
#include <thread>

#include "base/printable.h"
#include "base/processes.h"
#include "base/threads.h"
#include "cli/check/given_failure.h"
#include "cli/check/no_pass.h"
#include "cli/open/stages.h"
#include "cli/options/again.h"
#include "cli/options/help.h"
#include "cli/print/trained.h"
#include "cli/terminal/status_line.h"
#include "cli/terminal/terminal.h"
#include "properties/case/words.h"
#include "properties/train_step/diagnosis.h"
#include "properties/train_step/sparse.h"
#include "reference/call/backend.h"

namespace attnfuzz {
namespace {

struct TrainArguments : FilingOptions {
  TrainArguments() { out = "."; }
  std::string forward, backward;
  std::vector<std::string> further;  // kernels, with `nsa`
  bool nsa = false;
  std::string lengths = "128:2048", gates = "drawn";
  uint64_t seed = 1;
  int jobs = 0;
};

constexpr std::pair<const char*, train::Gates> kGates[] = {
    {"drawn", train::Gates::kDrawn}, {"equal", train::Gates::kEqual}, {"zero", train::Gates::kZero}};

// The lengths at which a step is tried, from "128:2048" or one length: powers of two and their neighbours,
// because tiles end there, and the ends of the range.
std::vector<int64_t> lengths_of(const std::string& text) {
  const size_t colon = text.find(':');
  int64_t first = 0, last = 0;
  try {
    size_t end = 0, end_of_last = 0;
    first = last = std::stoll(text, &end);
    if (colon != std::string::npos) last = std::stoll(text.substr(colon + 1), &end_of_last);
    const bool whole = colon == std::string::npos ? end == text.size()
                                                  : end == colon && end_of_last == text.size() - colon - 1;
    if (!whole || first < 1 || last < first || last > train::kMostTokens) throw std::invalid_argument(text);
  } catch (const std::logic_error&) {
    throw UserError(fmt::format("--lengths {}: no range; say FIRST:LAST or one length, of 1 to {}", text,
                                train::kMostTokens));
  }
  std::set<int64_t> lengths = {first, last};
  for (int64_t power = 1; power <= last + 1; power *= 2) {
    for (const int64_t length : {power - 1, power, power + 1}) {
      if (length >= first && length <= last) lengths.insert(length);
    }
  }
  return {lengths.begin(), lengths.end()};
}

// The kernels of a job, and which of them makes each pass (train::Pass).
struct KernelSet {
  std::vector<OpenKernel> kernels;
  std::vector<size_t> of_passes;

  const OpenKernel& of(size_t pass) const { return kernels[of_passes[pass]]; }
  train::TrainStep dense() const {
    const OpenKernel &forward = of(train::kForwardPass), &backward = of(train::kBackwardPass);
    return {*forward.target, forward.calibration, *backward.target, backward.calibration};
  }
  train::SparseKernels sparse() const {
    train::SparseKernels all;
    for (size_t pass = 0; pass < all.size(); ++pass) {
      if (of_passes[pass] != kNoKernel) all[pass] = {of(pass).target.get(), &of(pass).calibration};
    }
    return all;
  }
};

class TrainCheck {
 public:
  TrainCheck(const TrainArguments& arguments, const CLI::App& command)
      : arguments_(arguments),
        command_(command),
        lengths_(lengths_of(arguments.lengths)),
        libraries_(libraries()) {}

  Exit run() {
    begin();
    train_all();
    say_summary();
    return conclude();
  }

 private:
  // The kernels, each once: if one kernel has both passes, the backward pass finds what the forward pass has
  // left in the process, as in training.
  std::vector<KernelLibrary> libraries() const {
    const TargetOptions& options = arguments_.target;
    if (!arguments_.nsa && !arguments_.further.empty())
      throw UserError(arguments_.further.front() +
                      ": a step of dense attention has two kernels; for more, say --nsa");
    std::vector<std::string> names = arguments_.further;
    names.insert(names.begin(), {arguments_.forward, arguments_.backward});
    if (arguments_.nsa) return libraries_of(names, options);
    const KernelLibrary forward = library_of(arguments_.forward, options),
                        backward = library_of(arguments_.backward, options);
    if (forward.path == backward.path && forward.kernel == backward.kernel) return {forward};
    return {forward, backward};
  }

  void say_setup() const {
    const std::string seed = fmt::format("seed {}", arguments_.seed);
    if (arguments_.nsa)
      return print(fmt::format("  a step: {}; {}\n", describe(sizes_of(sparse_, batches_.back())), seed));
    const train::ModelShape& m = dense_.model;
    print(fmt::format("  a step: {} query heads, {} KV heads, {} columns, {}, {}; {}\n", m.heads_q, m.heads_kv,
                      m.dim, codec::kDtypes[m.dtype], dense_.causal ? "causal" : "not causal", seed));
  }

  KernelSet open_set() const {
    KernelSet set;
    for (const KernelLibrary& library : libraries_)
      set.kernels.push_back(open_kernel(library, arguments_.target));
    if (!arguments_.nsa)
      set.of_passes = {0, set.kernels.size() - 1};
    else
      set.of_passes =
          share_out(set.kernels, {.count = train::kSparsePasses,
                                  .does = train::does_pass,
                                  .name_of = train::name_of_pass,
                                  .all = "fa1, fa1_backward, nsa, nsa_backward, nsa_score, nsa_compress and "
                                         "nsa_combine",
                                  .either = nsa::kEither});
    return set;
  }

  // Opens the kernels, and finds the problem that all take.
  void begin() {
    sets_.push_back(open_set());
    for (const OpenKernel& one : sets_.front().kernels)
      say_identity(identity_line(one.target->info(), arguments_.target), arguments_.verbose);
    if (!arguments_.nsa) {
      if (!kernel_has(operations::forward, forward_info().features))
        throw UserError(arguments_.forward + ": this kernel has no forward pass");
      if ((info_of(train::kBackwardPass).features & ATTN_FEATURE_BACKWARD) == 0)
        throw UserError(arguments_.backward + ": this kernel has no backward pass (ATTN_FEATURE_BACKWARD)");
    }
    choose_batches();
    trained_.resize(batches_.size());
    if (arguments_.verbose) say_setup();
  }

  // Tries each length, dense and, in dense attention, packed. Batches that a kernel refuses are left out and
  // counted.
  void choose_batches() {
    for (const int64_t length : lengths_) {
      batches_.push_back({.length = length, .packed = false, .seed = arguments_.seed});
      if (!arguments_.nsa) batches_.push_back({.length = length, .packed = true, .seed = arguments_.seed});
    }
    train::Gates gates = train::Gates::kDrawn;
    for (const auto& [name, kind] : kGates) {
      if (arguments_.gates == name) gates = kind;
    }
    if (arguments_.nsa) {
      const train::SparseChoice choice = train::choose_sparse_setup(batches_, gates, sets_.front().sparse());
      if (!choice.setup) throw UserError("no step of training that all kernels take: " + choice.why);
      sparse_ = *choice.setup;
      return;
    }
    const train::Choice choice = train::choose_setup(sets_.front().dense(), batches_, gates);
    if (!choice.setup) throw UserError("no step of training that both kernels take: " + choice.why);
    dense_ = *choice.setup;
    if (!dense_.packed) std::erase_if(batches_, [](const train::Batch& batch) { return batch.packed; });
  }

  train::Trained train(const train::Batch& batch, const KernelSet& set) const {
    return arguments_.nsa ? train::train_sparse(batch, sparse_, set.sparse())
                          : train::train(batch, dense_, set.dense());
  }

  // Each job has kernels of its own, and takes the longest batch that is left.
  void train_all() {
    int usual = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    // Each worker opens a GPU context. To open and close it takes longer than to run a batch.
    if (forward_info().backend == ATTN_CUDA) usual = std::min(usual, 2);
    const int jobs =
        std::min(arguments_.jobs == 0 ? usual : arguments_.jobs, static_cast<int>(batches_.size()));
    while (static_cast<int>(sets_.size()) < jobs) sets_.push_back(open_set());
    const auto start = std::chrono::steady_clock::now();
    std::mutex mutex;
    size_t left = batches_.size();
    const auto next = [&]() -> std::optional<size_t> {
      const std::lock_guard lock(mutex);
      if (left == 0 || interrupts_.came()) return std::nullopt;
      line_.show(fmt::format("train-step: {} of {} batches", batches_.size() - left, batches_.size()));
      return --left;
    };
    in_threads(jobs, [&](int job) {
      try {
        while (const auto n = next()) trained_[*n] = train(batches_[*n], sets_[static_cast<size_t>(job)]);
      } catch (...) {
        const std::lock_guard lock(mutex);
        left = 0;
        throw;
      }
    });
    line_.clear();
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  const KernelInfo& info_of(size_t pass) const { return sets_.front().of(pass).target->info(); }
  const KernelInfo& forward_info() const { return info_of(train::kForwardPass); }

  // "fa1 + fa1_backward": each kernel that makes a pass.
  std::string names() const {
    std::string text;
    const KernelSet& set = sets_.front();
    for (size_t n = 0; n < set.kernels.size(); ++n) {
      if (std::ranges::count(set.of_passes, n) > 0)
        text += (text.empty() ? "" : " + ") + printable(set.kernels[n].target->info().name);
    }
    return text;
  }

  void say_summary() {
    std::set<std::string> notes;
    double worst = 0;
    for (size_t n = 0; n < batches_.size(); ++n) {
      if (!trained_[n]) continue;
      const train::Trained& one = *trained_[n];
      worst = std::max(worst, one.worst);
      judged_ += one.refused.empty();
      failed_ += one.failure.has_value();
      if (!one.note.empty()) notes.insert(one.note);
    }
    print(fmt::format("{}  {} {}: {} batches of S = {} to {}, {} steps each, {} failed, {:.{}f} s{}{}\n",
                      names(), backend_name(forward_info().backend), printable(forward_info().build_kind),
                      judged_, lengths_.front(), lengths_.back(), train::kSteps, failed_, seconds_,
                      seconds_ < 10 ? 1 : 0,
                      std::isfinite(worst) ? fmt::format(", largest error {:.3g} of its bound", worst)
                                           : ", largest error infinite",
                      arguments_.seed == 1 ? "" : fmt::format(", seed {}", arguments_.seed)));
    if (!arguments_.nsa && !dense_.packed) print("  left out: packed sequences, which not both kernels take\n");
    print(left_out_lines(batches_, trained_));
    if (arguments_.verbose) print(loss_lines(batches_, trained_));
    for (const std::string& note : notes) print("  note: " + note + "\n");
  }

  // Reports one failure of each class, in the shortest batch that has it, and where else it occurs.
  void say_failures() {
    std::set<FailureClass> said;
    for (size_t n = 0; n < batches_.size(); ++n) {
      if (!trained_[n] || !trained_[n]->failure) continue;
      const train::StepFailure& failure = *trained_[n]->failure;
      const FailureClass which = class_of(failure, batches_[n]);
      if (!said.insert(which).second) continue;
      show("experiments on what fails");
      const OpenKernel& kernel = sets_.front().of(failure.pass);
      const train::Diagnosis diagnosis = train::diagnose(failure, *kernel.target, kernel.calibration);
      show("");
      print(fmt::format("\nFAIL (train-step, {}): {}{}\n  {}\n", to_string(failure.verdict.kind),
                        printable_lines(failure.message), train::words(diagnosis),
                        where_it_fails(which, batches_, trained_)));
      std::fflush(stdout);
      file(failure, batches_[n]);
    }
  }

  void file(const train::StepFailure& failure, const train::Batch& batch) {
    const GivenFiling filing = {.options = arguments_,
                                .stop = [this] { return interrupts_.came(); },
                                .at_work = [this](const std::string& what) { show(what); }};
    const std::string again = again_line(
        command_, {{"--lengths", std::to_string(batch.length)}, {"--seed", std::to_string(arguments_.seed)}});
    const GivenFailure given = {
        failure.c,       failure.inputs,
        failure.verdict, fmt::format("train-step in {}, step {}", describe(batch, failure.step), failure.step),
        again,           arguments_.seed};
    const OpenKernel& kernel = sets_.front().of(failure.pass);
    file_given(given, *kernel.target, kernel.calibration, kernel.library, filing);
  }

  void show(const std::string& what) {
    if (what.empty())
      line_.clear();
    else
      line_.show("train-step: " + what);
  }

  Exit conclude() {
    say_failures();
    std::fflush(stdout);
    if (failed_ > 0) return kFound;
    if (interrupts_.came()) {
      std::fprintf(stderr, "attnfuzz: interrupted: this is no pass\n");
      return static_cast<Exit>(128 + interrupts_.signal());
    }
    if (judged_ == 0) {
      std::fprintf(stderr, "attnfuzz: no step was judged\n");
      return kFound;
    }
    if (const std::string why =
            unvouched(arguments_.target, batches_.size() - judged_, batches_.size(), "batches");
        !why.empty()) {
      std::fprintf(stderr, "attnfuzz: %s\n", why.c_str());
      return kFound;
    }
    return kPassed;
  }

  const TrainArguments arguments_;
  const CLI::App& command_;
  const std::vector<int64_t> lengths_;
  const std::vector<KernelLibrary> libraries_;
  const Interrupts interrupts_;
  std::vector<KernelSet> sets_;  // of each job
  train::Setup dense_;
  train::SparseSetup sparse_;
  std::vector<train::Batch> batches_;
  std::vector<std::optional<train::Trained>> trained_;
  size_t judged_ = 0, failed_ = 0;
  double seconds_ = 0;
  StatusLine line_;
};

}  // namespace

void add_train_step(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "train-step", "Checks a forward and a backward kernel in two steps of training a small model");
  add_footer(
      *command,
      "attnfuzz train-step fa1 fa1_backward --lengths 128:512\n"
      "  attnfuzz train-step --nsa fa1 fa1_backward nsa nsa_backward nsa_score nsa_compress nsa_combine",
      {"it passed", "a failure was found, no step was judged, or one was left out under --untrusted",
       kBadUseStatus},
      "129, 130 or 143: nothing was found before SIGHUP, SIGINT or SIGTERM came.");
  const auto arguments = std::make_shared<TrainArguments>();
  command->add_option("forward", arguments->forward, "the kernel of the forward pass, by name or path")
      ->required();
  command->add_option("backward", arguments->backward, "the kernel of the backward pass; it may be the same")
      ->required();
  command->add_option(
      "further", arguments->further,
      "with --nsa: more kernels, in any order; the first that does a stage or its gradients runs it");
  command->add_flag(
      "--nsa", arguments->nsa,
      "native sparse attention: compressed keys, listed blocks and a window, combined by gates, with the "
      "gradients of each");
  command
      ->add_option(
          "--lengths", arguments->lengths,
          fmt::format(
              "tokens of a step, FIRST:LAST, up to {}: these, and each power of two between them, one less "
              "and one more",
              train::kMostTokens))
      ->capture_default_str();
  std::vector<std::string> gates;
  for (const auto& [name, kind] : kGates) gates.emplace_back(name);
  command
      ->add_option("--gates", arguments->gates,
                   "initial gates of the heads: drawn; equal, as if the last layer were zeros; or zero, so "
                   "that dO is 0")
      ->check(one_of("gates", gates))
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "seed of the model and its data")
      ->check(CLI::Range(uint64_t{0}, kMostCounted))
      ->capture_default_str();
  command
      ->add_option("--jobs", arguments->jobs,
                   "threads, each with workers of its own; 0: one a core, or two on a GPU")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  add_filing_options(*command, *arguments, "the losses, and all lines of a failure");
  command->callback([&action, arguments, command] {
    action = [arguments, command] { return TrainCheck(*arguments, *command).run(); };
  });
}

}  // namespace attnfuzz
