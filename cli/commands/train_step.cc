// attnfuzz train-step: runs two training steps on a forward and a backward kernel.
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
#include "cli/open/open_kernel.h"
#include "cli/options/again.h"
#include "cli/options/help.h"
#include "cli/print/trained.h"
#include "cli/terminal/status_line.h"
#include "cli/terminal/terminal.h"
#include "properties/case/words.h"
#include "properties/train_step/diagnosis.h"
#include "reference/call/backend.h"

namespace attnfuzz {
namespace {

struct TrainArguments {
  std::string forward, backward, lengths = "128:2048", gates = "drawn", out = ".";
  uint64_t seed = 1;
  int jobs = 0;
  double reduce_seconds = 30;
  bool verbose = false;
  TargetOptions target;
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

// A target, and the table by which it is judged.
struct OpenKernel {
  std::unique_ptr<Target> target;
  Calibration calibration;
};

// The two kernels, open. One kernel that has both passes is open once, so that the backward pass finds what the
// forward pass has left in the process, as in training.
struct Pair {
  OpenKernel forward;
  std::optional<OpenKernel> other;

  const OpenKernel& backward() const { return other ? *other : forward; }
  train::TrainStep step() const {
    return {*forward.target, forward.calibration, *backward().target, backward().calibration};
  }
};

class TrainCheck {
 public:
  TrainCheck(const TrainArguments& arguments, const CLI::App& command)
      : arguments_(arguments),
        command_(command),
        lengths_(lengths_of(arguments.lengths)),
        forward_(library_of(arguments.forward, arguments.target)),
        backward_(library_of(arguments.backward, arguments.target)) {}

  Exit run() {
    begin();
    train_all();
    say_summary();
    return conclude();
  }

 private:
  void say_setup() const {
    const train::ModelShape& m = setup_.model;
    print(fmt::format("  a step: {} query heads, {} KV heads, {} columns, {}, {}; seed {}\n", m.heads_q,
                      m.heads_kv, m.dim, codec::kDtypes[m.dtype], setup_.causal ? "causal" : "not causal",
                      arguments_.seed));
  }

  OpenKernel open_one(const KernelLibrary& library) const {
    auto target = open(library, arguments_.target);
    const Calibration calibration = calibration_for(target->info(), arguments_.target);
    return {std::move(target), calibration};
  }

  Pair open_pair() const {
    Pair pair = {open_one(forward_), std::nullopt};
    const bool one = forward_.path == backward_.path && forward_.kernel == backward_.kernel;
    if (!one) pair.other = open_one(backward_);
    return pair;
  }

  // Opens the kernels, and finds the problem that both take.
  void begin() {
    pairs_.push_back(open_pair());
    const Pair& pair = pairs_.front();
    const KernelInfo &forward = pair.forward.target->info(), &backward = pair.backward().target->info();
    say_identity(identity_line(forward, arguments_.target), arguments_.verbose);
    if (pair.other) say_identity(identity_line(backward, arguments_.target), arguments_.verbose);
    if (!kernel_has(operations::forward, forward.features))
      throw UserError(arguments_.forward + ": this kernel has no forward pass");
    if ((backward.features & ATTN_FEATURE_BACKWARD) == 0)
      throw UserError(arguments_.backward + ": this kernel has no backward pass (ATTN_FEATURE_BACKWARD)");
    choose_batches();
    trained_.resize(batches_.size());
    if (arguments_.verbose) say_setup();
  }

  // Tries each length, dense and packed. Batches that a kernel refuses are left out and counted.
  void choose_batches() {
    for (const int64_t length : lengths_) {
      for (const bool packed : {false, true})
        batches_.push_back({.length = length, .packed = packed, .seed = arguments_.seed});
    }
    train::Gates gates = train::Gates::kDrawn;
    for (const auto& [name, kind] : kGates) {
      if (arguments_.gates == name) gates = kind;
    }
    const train::Choice choice = train::choose_setup(pairs_.front().step(), batches_, gates);
    if (!choice.setup) throw UserError("no step of training that both kernels take: " + choice.why);
    setup_ = *choice.setup;
    if (!setup_.packed) std::erase_if(batches_, [](const train::Batch& batch) { return batch.packed; });
  }

  // Each job has kernels of its own, and takes the longest batch that is left.
  void train_all() {
    int usual = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    // Each worker opens a GPU context. To open and close it takes longer than to run a batch.
    if (forward_info().backend == ATTN_CUDA) usual = std::min(usual, 2);
    const int jobs =
        std::min(arguments_.jobs == 0 ? usual : arguments_.jobs, static_cast<int>(batches_.size()));
    while (static_cast<int>(pairs_.size()) < jobs) pairs_.push_back(open_pair());
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
        while (const auto n = next())
          trained_[*n] = train::train(batches_[*n], setup_, pairs_[static_cast<size_t>(job)].step());
      } catch (...) {
        const std::lock_guard lock(mutex);
        left = 0;
        throw;
      }
    });
    line_.clear();
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  const KernelInfo& forward_info() const { return pairs_.front().forward.target->info(); }

  std::string names() const {
    return printable(forward_info().name) + " + " + printable(pairs_.front().backward().target->info().name);
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
    if (!setup_.packed) print("  left out: packed sequences, which not both kernels take\n");
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
      const OpenKernel& kernel = failing_kernel(failure);
      const train::Diagnosis diagnosis = train::diagnose(failure, *kernel.target, kernel.calibration);
      show("");
      print(fmt::format("\nFAIL (train-step, {}): {}{}\n  {}\n", to_string(failure.verdict.kind),
                        printable_lines(failure.message), train::words(diagnosis),
                        where_it_fails(which, batches_, trained_)));
      std::fflush(stdout);
      file(failure, batches_[n]);
    }
  }

  const OpenKernel& failing_kernel(const train::StepFailure& failure) const {
    return failure.of_backward ? pairs_.front().backward() : pairs_.front().forward;
  }

  void file(const train::StepFailure& failure, const train::Batch& batch) {
    const GivenFiling filing = {.folder = arguments_.out,
                                .reduce_seconds = arguments_.reduce_seconds,
                                .verbose = arguments_.verbose,
                                .target = arguments_.target,
                                .stop = [this] { return interrupts_.came(); },
                                .at_work = [this](const std::string& what) { show(what); }};
    const std::string again = again_line(
        command_, {{"--lengths", std::to_string(batch.length)}, {"--seed", std::to_string(arguments_.seed)}});
    const GivenFailure given = {
        failure.c,       failure.inputs,
        failure.verdict, fmt::format("train-step in {}, step {}", describe(batch, failure.step), failure.step),
        again,           arguments_.seed};
    const OpenKernel& kernel = failing_kernel(failure);
    file_given(given, *kernel.target, kernel.calibration, failure.of_backward ? backward_ : forward_, filing);
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
  const KernelLibrary forward_, backward_;
  const Interrupts interrupts_;
  std::vector<Pair> pairs_;
  train::Setup setup_;
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
  add_footer(*command, "attnfuzz train-step fa1 fa1_backward --lengths 128:512",
             {"it passed", "a failure was found, no step was judged, or one was left out under --untrusted",
              kBadUseStatus},
             "129, 130 or 143: nothing was found before SIGHUP, SIGINT or SIGTERM came.");
  const auto arguments = std::make_shared<TrainArguments>();
  command->add_option("forward", arguments->forward, "the kernel of the forward pass, by name or path")
      ->required();
  command->add_option("backward", arguments->backward, "the kernel of the backward pass; it may be the same")
      ->required();
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
  command->add_option("--out", arguments->out, "folder for reproducers")->capture_default_str();
  command->add_option("--reduce-seconds", arguments->reduce_seconds, "wall clock for reducing a failure")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  add_verbose_flag(*command, arguments->verbose, "the losses, and all lines of a failure");
  add_target_options(*command, arguments->target);
  command->callback([&action, arguments, command] {
    action = [arguments, command] { return TrainCheck(*arguments, *command).run(); };
  });
}

}  // namespace attnfuzz
