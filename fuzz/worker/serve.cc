#include "fuzz/worker/serve.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "fuzz/host/output_hash.h"
#include "fuzz/host/spin.h"
#include "fuzz/worker/coverage.h"
#include "fuzz/worker/describe.h"
#include "fuzz/worker/finite.h"
#include "fuzz/worker/memory/shadow.h"
#include "fuzz/worker/plans_differ.h"

// A worker that is linked without the executor does not have this function.
namespace simt {
__attribute__((weak)) void publish_progress(Progress* to);
}

namespace attnfuzz::worker {
namespace {

using Clock = std::chrono::steady_clock;

template <size_t N>
void copy_text(char (&to)[N], const char* from) {
  const size_t length = from ? strnlen(from, N - 1) : 0;
  if (length) std::memcpy(to, from, length);
  to[length] = '\0';
}

// A report is kept for the answer, and in the wire in case no answer comes: host code may end the process when
// it sees that its launch failed.
struct Kept {
  wire::Report& answer;
  wire::Report& wire;
};

// attn_env::report: keeps the first report of a call, because it is the cause of the later ones.
void keep_report(void* user, const attn_report* r) {
  const Kept& kept = *static_cast<const Kept*>(user);
  wire::Report& report = kept.answer;
  attn_report known;
  if (report.given || !attn_read(&known, sizeof known, r, ATTN_REPORT_MIN)) return;
  report.given = 1;
  report.kind = known.kind;
  std::memcpy(report.block, known.block, sizeof report.block);
  std::memcpy(report.thread, known.thread, sizeof report.thread);
  report.line = known.line;
  report.shared_bytes = known.shared_bytes;
  copy_text(report.message, known.message);
  copy_text(report.file, known.file);
  kept.wire = report;
}

void report(wire::Answer& answer, attn_report_kind kind, const std::string& message) {
  answer.status = ATTN_FAULT;
  if (answer.report.given) return;
  answer.report.given = 1;
  answer.report.kind = kind;
  copy_text(answer.report.message, message.c_str());
}

void report_device(wire::Answer& answer, const std::string& message) {
  answer.retiring = 1;
  report(answer, ATTN_REPORT_DEVICE, message);
}

// Reports that nothing has run because the case's memory could not be prepared. If only memory was short, the
// worker continues.
void report_memory(wire::Answer& answer, const std::string& why) {
  if (!batch::is_no_memory(why)) return report_device(answer, why);
  answer.status = ATTN_UNSUPPORTED;
  answer.no_memory = 1;
  copy_text(answer.reason, why.c_str());
}

// Room for a kernel's answer: a struct with its size set, and behind it bytes that the kernel must leave alone.
template <class Struct>
struct Room {
  Struct answer = {};
  uint8_t beyond[1024];

  Room() {
    answer.size = sizeof answer;
    std::ranges::fill(beyond, kUntouched);
    defined(this, sizeof *this);
  }
  bool overrun() const {
    return std::ranges::any_of(beyond, [](uint8_t byte) { return byte != kUntouched; });
  }

 private:
  static constexpr uint8_t kUntouched = 0x5a;
};

void all_defined(const wire::Request& request, const attn_env& env) {
  defined(&request, sizeof request);
  defined(&env, sizeof env);
}

void reset(simt::Progress& progress) { progress.done = progress.blocks = progress.ended = 0; }

wire::Compiling* compiling_clock = nullptr;

uint64_t nanoseconds(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void reset(wire::Compiling& clock) {
  for (std::atomic<uint64_t>* one : {&clock.since, &clock.since_processor, &clock.clock, &clock.processor})
    *one = 0;
}

class Server {
 public:
  Server(wire::Wire& wire, const Library& library, Memory& memory, const Arena& arena)
      : wire_(wire),
        kernel_(*library.kernel),
        library_(library),
        finite_(library.finite),
        memory_(memory),
        arena_(arena) {}

  wire::Answer answer(const wire::Request& request) {
    wire::Answer answer = {};
    attn_env env = request.env;
    env.backend = memory_.backend();
    memory_.limit(env);
    wire_.answer.report.given = 0;
    Kept kept = {answer.report, wire_.answer.report};
    env.report = keep_report;
    env.user = &kept;
    env.probe = nullptr;
    const std::span<const MemoryRange> ranges(wire_.ranges, std::min(request.range_count, wire::kMaxRanges));
    switch (request.command) {
      case wire::Command::kPlan:
        plan(request, ranges, env, answer);
        break;
      case wire::Command::kRun:
        run(request, ranges, env, answer);
        break;
      case wire::Command::kVariantPlans:
        plan_variants(request, ranges, env, answer);
        break;
      case wire::Command::kBatchPlans:
      case wire::Command::kBatchRuns:
        run_batch(request, answer);
        break;
      case wire::Command::kTell:
        wire_.doing = wire::Doing::kTelling;
        tell(request, answer);
        break;
      case wire::Command::kPartials:
        wire_.doing = wire::Doing::kDescribingPartials;
        partials(request, env, answer);
        break;
    }
    return answer;
  }

 private:
  void run_batch(const wire::Request& request, wire::Answer& answer) {
    const bool runs = request.command == wire::Command::kBatchRuns;
    wire_.doing = runs ? wire::Doing::kRunning : wire::Doing::kPlanning;
    std::string why;
    batch::Device* device = memory_.batch_device(wire_.readback, &why);
    if (!device) {
      answer.status = ATTN_UNSUPPORTED;
      copy_text(answer.reason, why.c_str());
      return;
    }
    const size_t count = std::min(request.calls, batch::kMostCalls);
    // Copies: the kernel is given addresses in them.
    calls_.assign(wire_.calls, wire_.calls + count);
    results_.resize(count);
    const auto limit = [](void* memory, attn_env& env) { static_cast<const Memory*>(memory)->limit(env); };
    const Failure failed = runs ? device->run(kernel_, limit, &memory_, calls_, results_, wire_.readback)
                                : device->plan(kernel_, limit, &memory_, calls_, results_);
    if (failed) {
      copy_text(answer.reason, failed->c_str());
      return report_memory(answer, *failed);
    }
    if (runs && finite_)
      for (batch::Result& result : results_)
        if (result.counts.not_finite > 0) result.status = ATTN_UNSUPPORTED;
    std::ranges::copy(results_, wire_.results);
  }

  // The methods that this calls may use the device, on its default stream, so a device's error is found here.
  void tell(const wire::Request& request, wire::Answer& answer) {
    answer.status = ATTN_UNSUPPORTED;
    char text[512] = "the kernel is no class";
    if (library_.tell != nullptr) {
      text[0] = 0;
      answer.status = library_.tell(request.told, text, sizeof text);
    }
    if (const Failure why = memory_.finish(0)) return report_device(answer, *why);
    if (answer.status == ATTN_OK) return;
    const int32_t status = answer.status;
    report(answer, status == ATTN_UNSUPPORTED ? ATTN_REPORT_LAUNCH : ATTN_REPORT_DEVICE, text);
    answer.status = status;
    answer.retiring = status != ATTN_UNSUPPORTED;
  }

  void partials(const wire::Request& request, const attn_env& env, wire::Answer& answer) {
    Room<attn_partials> room;
    all_defined(request, env);
    answer.status =
        kernel_.partials ? kernel_.partials(&request.problem, &request.plan, &room.answer) : ATTN_UNSUPPORTED;
    answer.partials = room.answer;
    if (room.overrun()) answer.partials = {};  // its size 0 marks it as invalid
  }

  attn_tensors tensors(const wire::Request& request) {
    attn_tensors t = {};
    t.size = request.tensors_size;
    for (const TensorSpec& spec : kTensors) {
      if (!in_problem(spec, request.problem.features)) continue;  // may share a member
      const wire::Tensor& from = request.tensors[static_cast<size_t>(spec.id)];
      attn_tensor view = {memory_.address(from.offset), {}};
      std::memcpy(view.stride, from.stride, sizeof view.stride);
      set_view(t, spec, view);
    }
    t.workspace_bytes = request.workspace_bytes;
    return t;
  }

  void plan(const wire::Request& request, std::span<const MemoryRange> ranges, attn_env& env,
            wire::Answer& answer) {
    wire_.doing = wire::Doing::kPlanning;
    if (const Failure why = memory_.fits(ranges)) {
      copy_text(answer.reason, why->c_str());
      return report_memory(answer, *why);
    }
    const attn_tensors t = tensors(request);
    Room<attn_plan> room;
    env.stream = memory_.stream(request.stream);
    defined(&t, sizeof t);
    defined(&answer, sizeof answer);
    all_defined(request, env);
    answer.status = kernel_.plan(&request.problem, &t, &env, &room.answer, answer.reason, sizeof answer.reason);
    answer.reason[sizeof answer.reason - 1] = '\0';
    answer.plan = room.answer;
    if (!room.overrun()) ask_again(request, t, env, answer);
    if (room.overrun()) {
      report(answer, ATTN_REPORT_ADDRESS,
             "it wrote beyond the plan->size = " + std::to_string(sizeof(attn_plan)) +
                 " bytes that its caller has: fill in a plan of its own, and attn_write() it");
      answer.retiring = 1;
      copy_text(answer.reason, answer.report.message);
    }
    // A device's errors stay; one made here must not be blamed on a later run.
    if (const Failure why = memory_.finish(request.stream)) {
      report_device(answer, "after plan(): " + *why);
      copy_text(answer.reason, answer.report.message);
    }
  }

  // Stops at the first variant that is no plain answer: a report, or too little memory. `answer` is then that one's.
  void plan_variants(const wire::Request& request, std::span<const MemoryRange> ranges, attn_env& env,
                     wire::Answer& answer) {
    const int32_t most = std::clamp(request.env.variant, 0, wire::kMostVariant);
    for (int32_t variant = 0; variant <= most; ++variant) {
      env.variant = variant;
      std::memset(answer.reason, 0, sizeof answer.reason);
      answer.unsteady = 0;
      plan(request, ranges, env, answer);
      if (answer.report.given || answer.retiring || answer.no_memory) return;
      wire::VariantPlan& to = wire_.variant_plans[variant];
      to.status = answer.status, to.unsteady = answer.unsteady, to.plan = answer.plan;
      std::memcpy(to.reason, answer.reason, sizeof to.reason);
    }
  }

  // Calls plan() a second time. If two calls with the same arguments give different plans, nothing can be
  // judged: the plan that runs may not be the one that was checked, and findings cannot be replayed.
  void ask_again(const wire::Request& request, const attn_tensors& t, const attn_env& env,
                 wire::Answer& answer) {
    Room<attn_plan> room;
    char reason[sizeof answer.reason] = {};
    // The first plan() used this part of the stack and may have left it marked as undefined.
    defined(&room, sizeof room);
    defined(reason, sizeof reason);
    all_defined(request, env);
    const attn_status status = kernel_.plan(&request.problem, &t, &env, &room.answer, reason, sizeof reason);
    // Marks both answers as defined, because they are only compared.
    defined(&room, sizeof room);
    defined(&answer, sizeof answer);
    const std::string why =
        plans_differ({static_cast<attn_status>(answer.status), answer.plan}, {status, room.answer});
    if (why.empty()) return;
    answer.unsteady = 1;
    copy_text(answer.reason, why.c_str());
  }

  void run(const wire::Request& request, std::span<const MemoryRange> ranges, attn_env& env,
           wire::Answer& answer) {
    auto* entry = kernel_.run;
    wire_.doing = wire::Doing::kRunning;
    if (request.stage == Stage::kPartial) {
      entry = kernel_.partial;
      wire_.doing = wire::Doing::kPartialStage;
    } else if (request.stage == Stage::kReduce) {
      entry = kernel_.reduce;
      wire_.doing = wire::Doing::kReduceStage;
    }
    if (!entry) {
      answer.status = ATTN_UNSUPPORTED;
      copy_text(answer.reason, "the kernel has no stages");
      return;
    }
    if (const Failure why = memory_.fits(ranges)) return report_memory(answer, *why);
    if (const auto which = finite_ ? not_finite(request, arena_) : std::nullopt) {
      report(answer, ATTN_REPORT_LAUNCH,
             "declared for finite numbers, and " + std::string(name_of(*which)) + " holds another");
      answer.status = ATTN_UNSUPPORTED;
      return;
    }
    if (const Failure why = memory_.to_kernel(ranges, request.stream)) return report_memory(answer, *why);
    const attn_tensors t = tensors(request);
    const attn_plan plan = request.plan;
    env.stream = memory_.stream(request.stream);
    attn_probe probe = {};
    if (request.probe.wanted) {
      probe.size = sizeof probe;
      std::memcpy(probe.block, request.probe.block, sizeof probe.block);
      probe.warp = request.probe.warp;
      wire_.probe_used = 0;
      if (const Failure why = memory_.open_probe(wire::kProbeValues, probe)) return report_device(answer, *why);
      defined(&probe, sizeof probe);
      env.probe = &probe;
    }
    before_run(request, ranges, arena_);
    defined(&t, sizeof t);
    defined(&plan, sizeof plan);
    all_defined(request, env);
    clear_coverage();
    const Clock::time_point start = Clock::now();
    answer.status = entry(&request.problem, &t, &plan, &env);
    const bool undefined = undefined_status();
    const Failure failed = memory_.finish(request.stream);
    answer.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (wire_.measures != 0) answer.outputs = hash_outputs(arena_.base(), ranges);
    wire_.counter_count = read_coverage(wire_.counters, wire::kMaxCounters);
    if (failed) return report_device(answer, *failed);
    if (request.probe.wanted) {
      if (const Failure why = memory_.read_probe(probe, wire_.probe, &wire_.probe_used))
        return report_device(answer, *why);
    }
    if (const Failure why = memory_.from_kernel(ranges, request.stream)) return report_device(answer, *why);
    if (undefined) {
      report(answer, ATTN_REPORT_UNINITIALISED,
             "the status it returned depends on memory or registers that nothing defined");
    } else if (answer.status == ATTN_OK) {
      if (const auto why = after_run(request, arena_)) report(answer, ATTN_REPORT_UNINITIALISED, *why);
    }
    // After a report the executor has abandoned threads half-way, so this worker is replaced. A
    // kernel that refused has not started anything, so its worker stays.
    answer.retiring = (answer.report.given && answer.status != ATTN_UNSUPPORTED) || answer.status == ATTN_FAULT;
  }

  wire::Wire& wire_;
  const attn_kernel& kernel_;
  const Library& library_;
  const bool finite_;  // the kernel promises nothing for NaN and infinities in Q, K and V
  Memory& memory_;
  const Arena& arena_;
  std::vector<batch::Call> calls_;
  std::vector<batch::Result> results_;
};

// Sleeps until the bell rings, at most 50 ms. The caller then checks the wire in any case, because a kernel may
// have rung or drained the bell. False: there is no bell any more. (Bells are non-blocking. Otherwise a kernel
// that reads the parent's bell could hang the parent.)
bool wait_for(int bell) {
  constexpr int kLookMs = 50;
  pollfd ready = {bell, POLLIN, 0};
  const int n = poll(&ready, 1, kLookMs);
  if (n < 0) return errno == EINTR;
  if (n == 0) return true;
  if (ready.revents & ~POLLIN) return false;
  uint64_t rings = 0;
  return read(bell, &rings, sizeof rings) == sizeof rings || errno == EINTR || errno == EAGAIN;
}

bool ring(int bell) {
  const uint64_t one = 1;
  return write(bell, &one, sizeof one) == sizeof one;
}

// The worker's bells, and copies of their descriptors. The copies show whether a kernel has replaced a bell by
// another file.
class Bells {
 public:
  Bells() {
    for (size_t n = 0; n < kNumbers.size(); ++n) copies_[n] = fcntl(kNumbers[n], F_DUPFD_CLOEXEC, 64);
  }
  bool intact() const {
    constexpr int kOfFiles = 0;  // KCMP_FILE
    for (size_t n = 0; n < kNumbers.size(); ++n) {
      if (fcntl(kNumbers[n], F_GETFD) < 0) return false;
      const long order = syscall(SYS_kcmp, getpid(), getpid(), kOfFiles, kNumbers[n], copies_[n]);
      if (order > 0 || (order < 0 && errno == EBADF)) return false;  // any other error: kcmp() is not available
    }
    return true;
  }

 private:
  static constexpr std::array kNumbers = {wire::kRequestBell, wire::kAnswerBell};
  std::array<int, 2> copies_;
};

}  // namespace

void compiling(bool begins) {
  if (compiling_clock == nullptr) return;
  wire::Compiling& clock = *compiling_clock;
  const uint64_t now = nanoseconds(CLOCK_MONOTONIC), processor = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
  if (begins) {
    clock.since_processor = processor;
    clock.since = now;
  } else if (const uint64_t since = clock.since.exchange(0); since != 0) {
    clock.clock += now - since;
    clock.processor += processor - clock.since_processor;
  }
}

int serve(wire::Wire& wire, const Library& library, Memory& memory, const Arena& arena) {
  compiling_clock = &wire.compiling;
  if (simt::publish_progress) simt::publish_progress(&wire.progress);
  describe(library, memory.device(), arena, wire.description);
  Server server(wire, library, memory, arena);
  const Bells bells;
  uint64_t served = 0;
  bool ran = false;
  wire.doing = wire::Doing::kNothing;
  wire.state.store(wire::State::kReady, std::memory_order_release);
  if (!ring(wire::kAnswerBell)) return wire::kExitBells;
  for (;;) {
    const auto asked = [&] { return wire.asked.load(std::memory_order_acquire) != served; };
    // After a run on the CPU the parent judges it, which takes longer than spinning lasts.
    if (!(ran ? asked() : spin_until(asked))) {
      while (!asked()) {
        if (!wait_for(wire::kRequestBell)) return wire::kExitBells;
      }
    }
    served = wire.asked.load(std::memory_order_acquire);
    reset(wire.compiling);
    reset(wire.progress);
    // The request is answered from a copy, because the kernel gets addresses in it. Below, the original must be
    // unchanged.
    wire::Request request;
    std::memcpy(static_cast<void*>(&request), &wire.request, sizeof request);
    const wire::Answer answer = server.answer(request);
    ran = request.command == wire::Command::kRun && memory.backend() == ATTN_CPU;
    // If the kernel changed the request, it is reported before this answer is published, so that this call is
    // blamed and not the next one.
    if (wire.asked.load(std::memory_order_acquire) != served ||
        std::memcmp(&wire.request, &request, sizeof request) != 0) {
      return wire::kExitScribbled;
    }
    if (!bells.intact()) return wire::kExitBells;
    wire.answer = answer;
    wire.doing = wire::Doing::kNothing;
    wire.answered.store(served, std::memory_order_release);
    if (!ring(wire::kAnswerBell)) return wire::kExitBells;
    if (answer.retiring) return 0;
  }
}

}  // namespace attnfuzz::worker
