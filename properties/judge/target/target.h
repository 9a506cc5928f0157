// A target: one kernel on one back end in one build, wherever it really runs.
//
// The parent process lays out a case in the target's arena, asks for a plan, asks for a run, and examines
// the arena. It never calls a kernel itself, because the kernel may crash, hang, or need an instrumented
// process. fuzz/host/worker_target.h opens a target that runs the kernel in a worker process.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention.h"
#include "properties/judge/target/exit_reason.h"
#include "properties/judge/target/exploit.h"
#include "properties/judge/target/turn.h"
#include "properties/memory/arena.h"

namespace attnfuzz {

struct BuildInfo {
  std::string hash = {};  // empty: unknown
  std::string compiler = {}, flags = {}, root = {};
  std::vector<std::pair<std::string, std::string>> files =
      {};  // name relative to root, or a whole path; XXH3-128
};

// A target in Python may be a class (`attnfuzz sequence`). This says where it keeps keys and values between calls.
enum class CacheKind : int32_t {
  kNone,   // it is no class, and keeps nothing
  kPools,  // in the pools of each call
  kOwn     // in memory of its own, which no other kernel sees
};

struct KernelInfo {
  std::string library;            // path
  std::string name, description;  // kernel_label() of the name (base/printable.h)
  std::string exact_name;         // as the library gives it: any bytes
  std::vector<std::pair<std::string, int32_t>> library_kernels;  // all kernels of the library: label, back end
  int32_t backend = ATTN_CPU;
  std::string build_kind = "plain";
  std::vector<std::string> variants;
  bool has_stages = false;
  uint64_t features = 0;  // attn_kernel.features: what a problem may ask beyond a dense forward call
  std::optional<attn_domain> domain;  // what the kernel declares to take
  // true if it may refuse in run() what it does not take, like a function of Python
  bool refuses_late = false;
  CacheKind cache = CacheKind::kNone;
  BuildInfo build;
  BuildInfo worker;    // of the worker program, which contains the executor
  std::string device;  // CUDA: GPU name, driver and toolkit; CPU: empty
  std::string note;    // what a check prints before it starts: what is left out, and why; empty: nothing
};

// With `crash`, `bad_plan` or `timed_out`, status is ATTN_FAULT. A plan with ATTN_OK has passed bad_plan().
struct PlanReply {
  attn_status status = ATTN_OK;
  attn_plan plan = {};
  std::string reason;  // of a refusal
  // Set if the worker died while planning ("SIGFPE in plan(), at libmine.so+0x1a2f"), or if its answer is no
  // status. A new worker replaces it.
  std::optional<std::string> crash;
  ExitReason exit_reason = ExitReason::kNone;  // of a crash
  std::optional<std::string> bad_plan;         // it returned, but the plan is impossible ("tile_q is 0, ...")
  // The device had too little free memory for the case, or the case has more ranges of memory than a worker
  // takes, so the kernel was not asked. This says nothing about the kernel. The status is ATTN_UNSUPPORTED.
  std::optional<std::string> no_memory;
  bool timed_out = false;            // the watchdog ended it
  std::string site;                  // as in RunReply
  Exploit exploit = Exploit::kNone;  // as in RunReply
};

// A fault that the back end reported while the kernel ran.
struct Fault {
  // Details of a sanitizer's report.
  enum class Detail : uint8_t { kNone, kFreed, kArithmetic, kAlignment };
  attn_report_kind kind;
  std::array<uint32_t, 3> block, thread;
  std::string message, file;
  int line;
  Detail detail = Detail::kNone;
  int32_t shared_bytes = 0;  // attn_report.shared_bytes
};

enum class Stage : int32_t { kAll, kPartial, kReduce };

// The block and warp whose intermediates are asked for: attn_probe.
struct ProbeRequest {
  std::array<uint32_t, 3> block = {0, 0, 0};
  uint32_t warp = 0;
};
// The numbers that the kernel recorded, as attn_probe describes. Empty: it records nothing, or that block
// and warp has no work.
struct Probe {
  std::vector<float> values;
  uint64_t used = 0;  // numbers that it wanted to record; those beyond values.size() are lost
};

// The progress of a call that the watchdog ended while blocks of its launch still ended one after another.
struct Slow {
  uint64_t done = 0, blocks = 0;  // of the current launch
  double seconds = 0;             // processor time
};

// The end of a run: it finished with a status, crashed, or timed out. In the last two cases status is
// ATTN_FAULT.
struct RunReply {
  attn_status status = ATTN_OK;
  std::optional<Fault> fault;
  std::optional<std::string> crash;            // as in PlanReply: "exit status 3 in run()"
  ExitReason exit_reason = ExitReason::kNone;  // of a crash
  std::optional<std::string> no_memory;        // as in PlanReply
  bool timed_out = false;                      // the watchdog ended the worker
  std::optional<Slow> slow;                    // set if the run timed out and was not stuck
  std::string site;                  // of a crash or a hang: the place in the kernel's code; empty: not known
  double seconds = 0;                // seconds in run(), synchronised
  Exploit exploit = Exploit::kNone;  // for a run that ended badly: the exploit, as far as the target knows
  std::optional<Probe> probe;        // if the run returned and Target::probe() asked for one
};

// The time that a call may take before it counts as a hang. The brief watch is for trying many cases of which
// some hang; its hangs must be confirmed.
enum class Watch { kFull, kBrief };

class Target;

// While it lives, calls get the brief watch if the failure under study is a hang, because most variants of
// such a case hang too. Any other failure keeps the full watch; otherwise a slow kernel's wrong numbers
// would be reported as a hang.
class BriefWatch {
 public:
  BriefWatch(Target& target, bool hangs);
  ~BriefWatch();
  BriefWatch(const BriefWatch&) = delete;
  BriefWatch& operator=(const BriefWatch&) = delete;

 private:
  Target& target_;
};

class Oracles;
class Peer;
struct Case;

class Target {
 public:
  virtual ~Target() = default;
  virtual const KernelInfo& info() const = 0;
  // Threads may share a target (fuzz/batch/shared_target.h). While the returned turn lives, only this thread
  // may use the target. judge() takes a turn by itself.
  virtual Turn turn() { return {}; }
  // The memory in which the kernel's tensors must lie. The attn_tensors passed below hold addresses of this
  // process; the target translates them.
  virtual Arena& arena() = 0;
  // The parts of the arena that the next calls of run() use (LaidOut::ranges()). Call it before plan(), and
  // again once the workspace is placed. A device with its own memory gets these bytes before each run and
  // returns them afterwards; a kernel on the CPU works in the arena itself.
  virtual void memory(std::span<const MemoryRange> ranges) { (void)ranges; }
  // A problem with features that the kernel does not know is never offered to it: the reply is ATTN_UNSUPPORTED
  // with a reason.
  virtual PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) = 0;
  // The target keeps two streams; `stream` is 0 or 1. It sets the callbacks, the stream pointer and the probe
  // in `env` itself and ignores those given.
  virtual RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors,
                       const attn_plan& plan, const attn_env& env, int stream) = 0;
  // Tells a target that keeps a cache (KernelInfo::cache), as JSON, to which step the next call belongs and which
  // sequences of the cache it concerns, or what happens to these (properties/sequences/run/tell.h). It answers as run() does.
  virtual RunReply tell(const std::string& json) {
    (void)json;
    return {};
  }
  // Sets how closely all later calls are watched; kFull at first.
  virtual void watch(Watch watch) { (void)watch; }
  // Discards all that the kernel's library may have kept from earlier calls.
  virtual void renew() {}
  // The probe of all runs from now on; initially none.
  virtual void probe(const std::optional<ProbeRequest>& request) { (void)request; }
  // How often run() took each edge of the kernel's code: one bit each for 1, 2, 3, 4-7, 8-15, 16-31, 32-127 and
  // more times. The bits of all runs since the last call are combined. Runs count if they returned, and if the
  // kernel counts edges: a "coverage" build or a sanitizer's. Empty otherwise. An edge has the same place in
  // all runs of a library. Valid until the next run.
  virtual std::span<const uint8_t> coverage() const { return {}; }
  // The places of the partials of a kernel with stages: inside the planned workspace, aligned, with strides
  // that are not negative. Nothing if the kernel has no stages; *why is then empty. Nothing, too, if its answer
  // breaks these rules or kills the worker; *why then says so.
  virtual std::optional<attn_partials> partials(const attn_problem& problem, const attn_plan& plan,
                                                std::string* why = nullptr) = 0;

  // The oracles that judge its runs (oracles.h); null: only the CPU's.
  std::shared_ptr<Oracles> oracles = {};
  // The build whose bits it must reproduce (peer.h); null: none.
  std::shared_ptr<Peer> peer = {};
  // Called before each run of all stages or of the first stage, to count what reaches a kernel
  // (fuzz/check/counts/census.h). May be null.
  std::function<void(const Case& c, const attn_plan& plan)> on_run = {};
  // The caller's domain, if there is one; it lies inside of the declared one.
  std::optional<attn_domain> terms = {};
  // The caller's domain, or the declared one.
  const std::optional<attn_domain>& domain() const { return terms ? terms : info().domain; }
};

inline BriefWatch::BriefWatch(Target& target, bool hangs) : target_(target) {
  target_.watch(hangs ? Watch::kBrief : Watch::kFull);
}
inline BriefWatch::~BriefWatch() { target_.watch(Watch::kFull); }

}  // namespace attnfuzz
