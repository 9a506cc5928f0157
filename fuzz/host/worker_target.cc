#include "fuzz/host/worker_target.h"

#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/printable.h"
#include "fuzz/batch/batch_judge.h"
#include "fuzz/host/answer_checks.h"
#include "fuzz/host/output_hash.h"
#include "fuzz/host/sanitizer_report.h"
#include "fuzz/host/site.h"
#include "fuzz/host/spin.h"
#include "fuzz/host/variant_plans.h"
#include "fuzz/host/watchdog.h"
#include "fuzz/host/worker_description.h"
#include "fuzz/host/worker_process.h"
#include "fuzz/host/zygote.h"
#include "properties/case/features/domain.h"
#include "properties/judge/bad_plan.h"

namespace attnfuzz {
namespace {

using Clock = std::chrono::steady_clock;

Clock::duration seconds(double s) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
}

attn_status checked_status(int32_t status) {
  return status >= ATTN_OK && status <= ATTN_FAULT ? static_cast<attn_status>(status) : ATTN_FAULT;
}

std::optional<std::string> unknown_status(int32_t status) {
  if (status >= ATTN_OK && status <= ATTN_FAULT) return std::nullopt;
  return "returned the status " + std::to_string(status) + ", which is none of attn_status";
}

std::string in_words(const Fault& fault) {
  return fault.message + (fault.file.empty() ? "" : ", at " + fault.file + ":" + std::to_string(fault.line));
}

class WorkerTarget final : public Target, public BatchTarget, public VariantPlans {
 public:
  explicit WorkerTarget(WorkerOptions options) : options_(std::move(options)) {
    uint64_t random = 0;
    if (confined() && getrandom(&random, sizeof random, 0) == sizeof random)
      arena_.poison = random_poison(random);
  }

  // Starts a worker. Returns the reason if that fails. If the process is killed while it starts, by a person or
  // because memory is short, that says nothing about the kernel, so it is tried again.
  std::optional<std::string> start() {
    constexpr int kTries = 3;
    for (int tries = 1;; ++tries) {
      bool killed = false;
      auto why = start_once(killed);
      if (!why || !killed || tries == kTries) return why;
    }
  }

  // True if start() failed because the kernel is for the other back end.
  bool other_backend() const { return other_backend_; }

  const KernelInfo& info() const override { return info_; }
  Arena& arena() override { return arena_; }
  void watch(Watch watch) override { watch_ = watch; }
  void renew() override { process_.reset(); }
  void probe(const std::optional<ProbeRequest>& request) override { probe_ = request; }
  std::span<const uint8_t> coverage() const override {
    coverage_asked_ = true;
    return coverage_;
  }
  void memory(std::span<const MemoryRange> ranges) override { ranges_.assign(ranges.begin(), ranges.end()); }

  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
    PlanReply reply;
    if ((info_.features & ATTN_FEATURE_NO_FORWARD) != 0 && (problem.features & kOperations) == 0) {
      reply.status = ATTN_UNSUPPORTED;
      reply.reason = "the kernel has no forward pass";
      return reply;
    }
    if (const uint64_t unknown = problem.features & ~info_.features) {
      reply.status = ATTN_UNSUPPORTED;
      reply.reason = "the kernel knows nothing of this kind of problem: attn_kernel.features lacks the bits " +
                     std::to_string(unknown);
      return reply;
    }
    if ((reply.no_memory = too_many_ranges())) {
      reply.status = ATTN_UNSUPPORTED;
      return reply;
    }
    wire::Request request = request_of(wire::Command::kPlan, problem);
    place(tensors, request);
    request.env = plain(env);
    const Outcome outcome = ask(request);
    if (outcome.ending != Ending::kAnswered) {
      reply.status = ATTN_FAULT;
      reply.site = outcome.site;
      reply.timed_out = outcome.ending == Ending::kTimedOut;
      if (!reply.timed_out) reply.crash = finding_ ? in_words(*finding_) : outcome.message;
      reply.exit_reason = outcome.exit_reason;
      reply.exploit = outcome.exploit;
      return reply;
    }
    const wire::Answer& answer = answer_;
    if (auto why = no_memory(answer)) {
      reply.status = checked_status(answer.status);
      reply.reason = *why;
      reply.no_memory = std::move(why);
      return reply;
    }
    return planned(answer, answer.report.given && answer.retiring);
  }

  std::vector<PlanReply> plans(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env,
                               int32_t most) override {
    // plan() refuses these calls without asking the kernel.
    const bool refused = (problem.features & ~info_.features) != 0 ||
                         ((info_.features & ATTN_FEATURE_NO_FORWARD) != 0 && (problem.features & kOperations) == 0);
    if (refused || most < 0 || most > wire::kMostVariant) return {};
    wire::Request request = request_of(wire::Command::kVariantPlans, problem);
    place(tensors, request);
    request.env = plain(env);
    request.env.variant = most;
    const Outcome outcome = ask(request);
    if (outcome.ending != Ending::kAnswered || answer_.report.given || answer_.retiring || answer_.no_memory) return {};
    std::vector<PlanReply> replies;
    for (int32_t variant = 0; variant <= most; ++variant) replies.push_back(planned(variant_plans_[variant], false));
    return replies;
  }

  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    wire::Request request = request_of(wire::Command::kRun, problem);
    request.stage = stage;
    request.stream = stream;
    request.plan = plan;
    if (probe_) {
      request.probe.wanted = 1;
      request.probe.warp = probe_->warp;
      std::copy_n(probe_->block.begin(), 3, request.probe.block);
    }
    request.env = plain(env);
    place(tensors, request);
    RunReply reply;
    if ((reply.no_memory = too_many_ranges())) {
      reply.status = ATTN_UNSUPPORTED;
      return reply;
    }
    if (coverage_asked_) coverage_.clear();
    coverage_asked_ = false;
    const Outcome outcome = ask(request);
    reply = replied(outcome);
    if (probe_ && outcome.ending == Ending::kAnswered && !reply.no_memory) reply.probe = probed_;
    return reply;
  }

  RunReply tell(const std::string& json) override {
    wire::Request request = {};
    request.command = wire::Command::kTell;
    if (json.size() >= sizeof request.told) throw std::logic_error("what a target is told is too long");
    std::ranges::copy(json, request.told);
    late_ = false;
    return replied(ask(request));
  }

  std::string why_no_batch() override {
    wire::Request request = {};
    request.command = wire::Command::kBatchPlans;
    return run_batch(request, {}, {});
  }

  std::string plan(std::span<const batch::Call> calls, std::span<batch::Result> results) override {
    wire::Request request = {};
    request.command = wire::Command::kBatchPlans;
    return run_batch(request, calls, results);
  }

  std::string run(std::span<const batch::Call> calls, std::span<batch::Result> results) override {
    wire::Request request = {};
    request.command = wire::Command::kBatchRuns;
    return run_batch(request, calls, results);
  }

  std::span<const std::byte> readback() override {
    return process_ ? std::span<const std::byte>(process_->wire().readback) : std::span<const std::byte>();
  }

  std::optional<attn_partials> partials(const attn_problem& problem, const attn_plan& plan,
                                        std::string* why) override {
    if (why) why->clear();
    if (!info_.has_stages) return std::nullopt;
    wire::Request request = request_of(wire::Command::kPartials, problem);
    request.plan = plan;
    const Outcome outcome = ask(request);
    std::optional<std::string> wrong;
    if (outcome.ending != Ending::kAnswered) {
      wrong = outcome.message;
    } else if (answer_.status != ATTN_OK) {
      wrong = "partials() returned status " + std::to_string(answer_.status) + " for a plan it was made for";
    } else {
      wrong = nonsense(answer_.partials, problem, plan);
    }
    if (!wrong) return answer_.partials;
    if (why) *why = *wrong;
    return std::nullopt;
  }

 private:
  enum class Ending { kAnswered, kDied, kTimedOut };
  struct Outcome {
    Ending ending;
    std::string message, site;
    ExitReason exit_reason = ExitReason::kNone;
    Exploit exploit = Exploit::kNone;
  };

  // Reads an answer to plan(): wire::Answer or wire::VariantPlan.
  template <class Answer>
  static PlanReply planned(const Answer& answer, bool crashed) {
    PlanReply reply;
    reply.status = checked_status(answer.status);
    reply.reason = printable({answer.reason, strnlen(answer.reason, sizeof answer.reason)});
    reply.plan = answer.plan;
    reply.crash = unknown_status(answer.status);
    if (answer.unsteady) reply.bad_plan = std::exchange(reply.reason, "");
    if (reply.status == ATTN_OK && !reply.bad_plan) reply.bad_plan = bad_plan(answer.plan);
    if (crashed) reply.crash = reply.reason;
    if (reply.crash || reply.bad_plan) {
      reply.status = ATTN_FAULT;
      reply.plan = {};
    }
    return reply;
  }

  // Reads an answer to run() or tell(). If the worker ended instead of answering, the reply says how.
  RunReply replied(const Outcome& outcome) {
    RunReply reply;
    if (outcome.ending != Ending::kAnswered) {
      reply.status = ATTN_FAULT;
      reply.site = outcome.site;
      reply.timed_out = outcome.ending == Ending::kTimedOut;
      if (reply.timed_out) reply.slow = slow_;
      if (!reply.timed_out) reply.crash = outcome.message;
      reply.exit_reason = outcome.exit_reason;
      reply.exploit = outcome.exploit;
      if (!reply.timed_out) {
        reply.fault = finding_;
        if (!finding_) reply.fault = left_;
      }
      return reply;
    }
    const wire::Answer& answer = answer_;
    if ((reply.no_memory = no_memory(answer))) {
      reply.status = ATTN_UNSUPPORTED;
      return reply;
    }
    if (answer.reason[0]) {
      const std::string reason = printable({answer.reason, strnlen(answer.reason, sizeof answer.reason)});
      // This message is the worker's, not the kernel's, unless the kernel wrote over the worker's memory.
      if (!confined()) throw std::runtime_error(info_.name + ": " + reason);
      process_.reset();
      reply.status = ATTN_FAULT;
      reply.crash = "the worker's answer was overwritten, and says: " + reason;
      reply.exploit = Exploit::kMemory;
      return reply;
    }
    reply.status = checked_status(answer.status);
    reply.fault = fault(answer.report);
    if (late_ && !reply.fault) {
      reply.exploit = Exploit::kLate;
      reply.fault = Fault{ATTN_REPORT_RACE, {}, {}, kLateWords, "", 0};
    }
    // Only some kernels may refuse in run() (KernelInfo::refuses_late). Of others this status is the failure,
    // and a report beside it is ignored.
    if (reply.status == ATTN_UNSUPPORTED && !info_.refuses_late) reply.fault.reset();
    reply.crash = unknown_status(answer.status);
    reply.seconds = std::isfinite(answer.seconds) ? std::max(answer.seconds, 0.0) : 0.0;
    return reply;
  }

  static wire::Request request_of(wire::Command command, const attn_problem& problem) {
    wire::Request request = {};
    request.command = command;
    request.problem = problem;
    return request;
  }

  std::string run_batch(wire::Request& request, std::span<const batch::Call> calls,
                        std::span<batch::Result> results) {
    if (calls.size() > batch::kMostCalls) throw std::logic_error("a batch of too many cases");
    request.calls = static_cast<uint32_t>(calls.size());
    const Outcome outcome = ask(request, calls);
    if (outcome.ending == Ending::kTimedOut) return "the watchdog";
    if (outcome.ending == Ending::kDied) return "the worker's exit: " + outcome.message;
    if (answer_.status != ATTN_OK)
      return printable({answer_.reason, strnlen(answer_.reason, sizeof answer_.reason)});
    std::ranges::copy(batch_results_, results.begin());
    return "";
  }

  // A tensor whose rows lie far apart is a range of memory for each row.
  std::optional<std::string> too_many_ranges() const {
    if (ranges_.size() <= wire::kMaxRanges) return std::nullopt;
    return "the case has " + std::to_string(ranges_.size()) + " ranges of memory, and a worker takes " +
           std::to_string(wire::kMaxRanges);
  }

  // Why nothing ran, if the GPU had too little memory. On the CPU the answer is ignored.
  std::optional<std::string> no_memory(const wire::Answer& answer) const {
    if (answer.no_memory == 0 || info_.backend == ATTN_CPU) return std::nullopt;
    return printable({answer.reason, strnlen(answer.reason, sizeof answer.reason)});
  }

  static attn_env plain(attn_env env) {
    env.stream = nullptr;
    env.report = nullptr;
    env.user = nullptr;
    env.probe = nullptr;
    return env;
  }

  void place(const attn_tensors& t, wire::Request& request) const {
    request.tensors_size = t.size;
    for (const TensorSpec& spec : kTensors) {
      // Tensors of other operations may use the same member of attn_tensors.
      const bool there = in_problem(spec, request.problem.features);
      const attn_tensor view = there ? view_of(t, spec) : attn_tensor{};
      wire::Tensor& tensor = request.tensors[static_cast<size_t>(spec.id)];
      tensor.offset = arena_.offset(view.data);
      std::copy_n(view.stride, 4, tensor.stride);
    }
    request.workspace_bytes = t.workspace_bytes;
  }

  std::optional<std::string> start_once(bool& killed) {
    kernels_fault_ = false;
    try {
      process_ = std::make_unique<WorkerProcess>(
          WorkerCommand{options_.worker, options_.library, options_.kernel, options_.measures}, arena_.fd());
    } catch (const std::runtime_error& e) {  // a std::system_error too
      return std::string("the worker cannot be started: ") + e.what();
    }
    asked_ = 0;
    const auto deadline = Clock::now() + seconds(options_.start_seconds);
    wire::Wire& wire = process_->wire();
    auto event = WorkerProcess::Event::kRang;
    while (wire.state.load(std::memory_order_acquire) == wire::State::kStarting &&
           event == WorkerProcess::Event::kRang) {
      event = process_->wait(deadline);
    }
    const wire::State state = wire.state.load(std::memory_order_acquire);
    std::string why;
    if (state == wire::State::kReady) {
      auto info = kernel_info(wire.description);
      const auto wrong = info && info->domain ? leaves_nothing(*info->domain, info->features) : std::nullopt;
      if (info && !wrong) {
        info_ = std::move(*info);
        info_.library = options_.library;
        info_.build_kind = options_.build_kind;
        info_.refuses_late = is_python(options_.library);
        return std::nullopt;
      }
      why = options_.library +
            (wrong ? ": it declares a domain (attn_kernel.domain) that leaves no case: " + *wrong
                   : ": the kernel's description makes no sense");
    } else if (state == wire::State::kRefused || state == wire::State::kOtherBackend) {
      other_backend_ = state == wire::State::kOtherBackend;
      why.assign(wire.refusal, strnlen(wire.refusal, sizeof wire.refusal));
    } else if (event == WorkerProcess::Event::kTimeout) {
      why = options_.library + ": not loaded within " + std::to_string(options_.start_seconds) + " s";
    } else {
      why = options_.library + ": " + describe_exit();
      if (is_python(options_.library))
        why += "\n" + printable_lines(zygote_of(options_.library, confined()).output());
      killed = event == WorkerProcess::Event::kDied && process_->exit_reason() == ExitReason::kKilled;
    }
    kernels_fault_ = !killed;
    process_.reset();
    return why;
  }

  // Says how the process ended and what it last printed. The process must be dead or given up.
  std::string describe_exit() {
    std::string message = exit_message(process_->end(), process_->wire(), options_.library);
    std::string output = process_->output();
    // A sanitizer's report is parsed before the output is cut to its last words.
    finding_ = sanitizer_fault(output, options_.library, places_,
                               [&](uint64_t address) { return place_of(address, process_->wire()); });
    if (output.size() > kMostWords) output.erase(0, output.size() - kMostWords);
    if (!output.empty()) message += "\nit printed: " + printable_lines(output);
    return message;
  }

  // Sleeps until the worker answered, died, or used up its time: `full` seconds, or the brief watch's share of
  // them. On the CPU these are seconds of the processor, and the limit by the clock is many times longer. On a
  // GPU they are seconds by the clock. A call whose blocks go on ending has more time (Pace). If it uses that
  // up too, slow_ is set.
  template <class Answered>
  WorkerProcess::Event wait_for(Answered answered, double full) {
    const bool brief = watch_ == Watch::kBrief, on_cpu = info_.backend == ATTN_CPU;
    const double allowed = brief ? full * kBriefShare : full;
    const double by_clock = on_cpu ? full * options_.patience * (brief ? kBriefShareOfClock : 1) : allowed;
    const auto last = Clock::now() + seconds(by_clock);
    const std::optional<double> before = on_cpu ? process_->processor_seconds() : std::nullopt;
    const simt::Progress& progress = process_->wire().progress;
    Pace pace(allowed, brief || confined() ? allowed : kTimesSlow * allowed);
    slow_.reset();
    // A single thread cannot use up the processor time before this deadline.
    auto deadline = before ? std::min(Clock::now() + seconds(pace.until(0, 0)), last) : last;
    constexpr double kLookAtCompiler = 1;
    for (;;) {
      auto event = WorkerProcess::Event::kRang;
      while (!answered() && event == WorkerProcess::Event::kRang) {
        // A kernel may have replaced the bell, so the answer is looked for even if the bell does not ring.
        event = process_->wait(std::min(deadline, Clock::now() + kLook));
        if (confined() && (hoards() || swarms())) return event;
        if (event == WorkerProcess::Event::kTimeout && Clock::now() < deadline)
          event = WorkerProcess::Event::kRang;  // only a look; the deadline is later
      }
      if (answered() || event != WorkerProcess::Event::kTimeout) return event;
      const std::optional<double> now = on_cpu ? process_->processor_seconds() : std::nullopt;
      const Compiled compiled = compiled_for(now, kTimesCompiling * allowed);
      const auto until = last + seconds(compiled.clock);
      if (Clock::now() >= until) return event;
      deadline = until;
      if (before) {
        const double used = now.value_or(0) - *before - compiled.processor;
        const double left = pace.until(used, progress.ended) - used;
        if (left <= 0) {
          if (pace.goes_on() && !confined()) slow_ = Slow{progress.done, progress.blocks, used};
          return event;
        }
        deadline = std::min(Clock::now() + seconds(std::max(left, 0.001)), until);
      }
      if (compiled.on) deadline = std::min(deadline, Clock::now() + seconds(kLookAtCompiler));
    }
  }

  // The seconds that the current call has spent compiling, by the clock and of processor time, each
  // up to a limit.
  struct Compiled {
    double clock = 0, processor = 0;
    bool on = false;  // it is still compiling
  };
  Compiled compiled_for(std::optional<double> processor_now, double most) const {
    if (confined()) return {};
    const wire::Compiling& of = process_->wire().compiling;
    double clock = 1e-9 * static_cast<double>(of.clock), processor = 1e-9 * static_cast<double>(of.processor);
    const uint64_t since = of.since;
    if (since != 0) {
      const double now = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
      clock += now - 1e-9 * static_cast<double>(since);
      if (processor_now) processor += *processor_now - 1e-9 * static_cast<double>(of.since_processor);
    }
    return {std::clamp(clock, 0.0, most), std::clamp(processor, 0.0, most), since != 0};
  }

  // Does one round trip; the answer is in answer_. Afterwards there is a sound worker or none.
  Outcome ask(const wire::Request& request, std::span<const batch::Call> calls = {}) {
    finding_.reset(), left_.reset();  // of an earlier call
    if (!process_) {
      if (auto why = start()) {
        const std::string text = "no new worker: " + *why;
        if (confined() && kernels_fault_) return {Ending::kDied, text, "", ExitReason::kNone, Exploit::kNone};
        throw std::runtime_error(text);
      }
    }
    wire::Wire& wire = process_->wire();
    process_->discard_output();
    if (confined()) process_->thaw();
    held_before_ = confined() ? held_blocks() : 0;
    wire.request = request;
    // Only plan() and run() of one case read ranges; those of an earlier case must not count.
    const bool lays = request.command == wire::Command::kPlan || request.command == wire::Command::kRun;
    const auto ranges = lays ? std::span<const MemoryRange>(ranges_) : std::span<const MemoryRange>();
    if (lays && too_many_ranges())
      throw std::logic_error("a case with too many ranges of memory: plan() and run() refuse it");
    wire.request.range_count = static_cast<uint32_t>(ranges.size());
    std::ranges::copy(ranges, wire.ranges);
    std::ranges::copy(calls, wire.calls);
    ++asked_;
    wire.asked.store(asked_, std::memory_order_release);
    process_->ring();

    const auto answered = [&] { return wire.answered.load(std::memory_order_acquire) == asked_; };
    auto event = WorkerProcess::Event::kRang;
    const bool runs = request.command == wire::Command::kRun;
    const double full =
        runs ? allowance(options_.watchdog, request.problem, request.plan.num_splits, info_.backend)
             : options_.watchdog;
    // On the CPU a run takes longer than spinning lasts, and another job may need this processor.
    const bool spins = !runs || info_.backend != ATTN_CPU;
    if (!(spins ? spin_until(answered) : answered())) event = wait_for(answered, full);
    if (confined() && hoards())
      return ended(
          "it wrote more than " + std::to_string(kMostStray >> 20) + " MiB of memory in which no tensor lies",
          Exploit::kHoards);
    if (confined() && swarms())
      return ended("it has more than " + std::to_string(WorkerProcess::most_tasks()) + " threads",
                   Exploit::kSwarms);
    if (!answered()) {
      Outcome outcome;
      if (event == WorkerProcess::Event::kTimeout) {
        // A slow call has no site, because it is not stuck.
        outcome = {Ending::kTimedOut, "no answer before the watchdog ended it",
                   slow_ ? "" : site_of_hang(*process_), ExitReason::kNone, Exploit::kNone};
      } else {
        outcome = {Ending::kDied, describe_exit(), site_of_exit(wire), process_->exit_reason(), Exploit::kNone};
        left_ = fault(wire.answer.report);
        if (left_) left_->message += "; then " + outcome.message.substr(0, outcome.message.find('\n'));
        if (confined()) outcome.exploit = exploit_of(wire, process_->exit_reason(), process_->exit_status());
        if (finding_ && !finding_->site.empty()) outcome.site = finding_->site;
      }
      process_.reset();
      return outcome;
    }
    answer_ = wire.answer;
    if (confined() && runs) {
      process_->freeze();
      late_ = answer_.status == ATTN_OK && info_.backend == ATTN_CPU && answered() &&
              hash_outputs(arena_.base(), ranges_) != answer_.outputs;
    }
    if (request.probe.wanted) {
      probed_.used = wire.probe_used;
      probed_.values.assign(wire.probe, wire.probe + std::min(probed_.used, wire::kProbeValues));
    }
    if (request.command == wire::Command::kVariantPlans) std::ranges::copy(wire.variant_plans, variant_plans_.begin());
    batch_results_.assign(wire.results, wire.results + calls.size());
    if (runs) add_coverage(wire);
    if (answer_.retiring || event == WorkerProcess::Event::kDied) process_.reset();
    return {Ending::kAnswered, "", "", ExitReason::kNone, Exploit::kNone};
  }

  // Ends the worker because of its behaviour, and gives back the memory that it shares.
  Outcome ended(const std::string& why, Exploit exploit) {
    process_.reset();
    for (const TensorSpec& spec : kTensors) arena_.forget(spec.id);
    return {Ending::kDied, why, "", ExitReason::kKilled, exploit};
  }

  bool confined() const { return options_.measures != 0; }

  // The number of 512-byte blocks of the arena that have memory.
  int64_t held_blocks() const {
    struct stat about = {};
    return fstat(arena_.fd(), &about) == 0 ? about.st_blocks : 0;
  }
  // True if a confined worker uses up the machine's memory by writing to parts of the arena without tensors. No
  // limit of a process counts shared memory.
  bool hoards() const {
    uint64_t due = kMostStray;
    for (const MemoryRange& range : ranges_) due += range.end - range.begin + 2 * Arena::kPage;
    return held_blocks() - held_before_ > static_cast<int64_t>(due / 512);
  }

  bool swarms() const { return process_->threads().value_or(0) > WorkerProcess::most_tasks(); }

  void add_coverage(const wire::Wire& wire) {
    const uint32_t count = std::min(wire.counter_count, wire::kMaxCounters);
    if (coverage_.size() < count) coverage_.resize(count);
    for (uint32_t i = 0; i < count; ++i) coverage_[i] |= bucket(wire.counters[i]);
  }

  // Groups counts into buckets, as libFuzzer does.
  static constexpr uint8_t bucket(uint8_t count) {
    if (count < 4) return static_cast<uint8_t>(count == 3 ? 4 : count);
    return count < 8 ? 8 : count < 16 ? 16 : count < 32 ? 32 : count < 128 ? 64 : 128;
  }

  static constexpr size_t kMostWords = 4096;
  static constexpr uint64_t kMostStray = uint64_t{64} << 20;
  static constexpr std::chrono::milliseconds kLook{50};
  static constexpr const char* kLateWords =
      "the outputs changed after run() had returned: a thread of the kernel was still writing";

  WorkerOptions options_;
  SourcePlaces places_{options_.library};
  std::optional<SanitizerFault> finding_;  // set if a sanitizer ended the worker
  std::optional<Fault> left_;  // of a worker that died by itself after its kernel had reported a fault
  Arena arena_;
  KernelInfo info_;
  std::vector<MemoryRange> ranges_;
  std::unique_ptr<WorkerProcess> process_;
  uint64_t asked_ = 0;
  int64_t held_before_ = 0;  // held_blocks() when it was asked
  bool late_ = false;        // outputs of the last run changed after it had returned
  bool other_backend_ = false;
  bool kernels_fault_ = false;  // if start() failed: the kernel was being loaded, and nobody killed the worker
  Watch watch_ = Watch::kFull;
  std::optional<Slow> slow_;  // progress of the last call, if it was ended as slow
  std::optional<ProbeRequest> probe_;
  std::vector<uint8_t> coverage_;  // coverage of the runs since coverage() was last called
  mutable bool coverage_asked_ = false;
  wire::Answer answer_ = {};
  Probe probed_;                              // of the last run with a probe
  std::array<wire::VariantPlan, wire::kMostVariant + 1> variant_plans_ = {};
  std::vector<batch::Result> batch_results_;  // of the last batch
};

}  // namespace

std::unique_ptr<Target> open_target(const WorkerOptions& options, std::string* error, bool* other_backend) {
  auto target = std::make_unique<WorkerTarget>(options);
  if (auto why = target->start()) {
    if (error) *error = *why;
    if (other_backend) *other_backend = target->other_backend();
    return nullptr;
  }
  return target;
}

}  // namespace attnfuzz
