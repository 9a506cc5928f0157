// A target: one kernel on one back end in one lane, wherever it really runs.
//
// The parent process lays out a case in the target's arena, asks for a plan,
// asks for a run, and looks at the arena again. It never calls a kernel itself:
// the kernel may crash, hang, or need an instrumented process (see
// fuzz/host/worker_target.h, the only implementation outside tests).
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
#include "properties/judge/cheat.h"
#include "properties/judge/death.h"
#include "properties/memory/arena.h"

namespace attnfuzz {

struct BuildInfo {
  std::string hash = {};  // empty: unknown
  std::string compiler = {}, flags = {}, root = {};
  std::vector<std::pair<std::string, std::string>> files =
      {};  // name relative to root, or a whole path; XXH3-128
};

struct KernelInfo {
  std::string library;            // path
  std::string name, description;  // kernel_label() of the name (text/printable.h)
  std::string exact_name;         // as the library gives it: any bytes
  std::vector<std::pair<std::string, int32_t>> library_kernels;  // all that the library has: label, back end
  int32_t backend = ATTN_CPU;
  std::string lane = "plain";
  std::vector<std::string> variants;
  bool has_stages = false;
  uint64_t features = 0;  // what a problem may ask of it beyond a dense forward call: attn_kernel.features
  std::optional<attn_domain> domain;  // what it says that it takes
  bool refuses_late = false;          // what it does not take it may say in run(): a function of Python
  BuildInfo build;
  BuildInfo worker;    // of the program that runs it: the executor
  std::string device;  // CUDA: GPU name, driver and toolkit; CPU: empty
  std::string note;    // what a check says of it before it begins: what is left out and why; empty: nothing
};

// With `crash`, `bad_plan` or `timed_out` status is ATTN_FAULT. A plan that says
// ATTN_OK has been looked at: see bad_plan.h.
struct PlanReply {
  attn_status status = ATTN_OK;
  attn_plan plan = {};
  std::string reason;  // of a refusal
  // The worker died while planning ("SIGFPE in plan(), at libmine.so+0x1a2f"), or what it answered
  // is no status; a new worker takes its place.
  std::optional<std::string> crash;
  Death death = Death::kNone;           // of a crash
  std::optional<std::string> bad_plan;  // it came back, but the plan makes no sense ("tile_q is 0, ...")
  bool timed_out = false;               // the watchdog ended it
  std::string site;                     // as in RunReply
  Cheat cheat = Cheat::kNone;           // likewise
};

// A fault that the back end reported while the kernel ran.
struct Fault {
  // What a sanitizer's report says besides.
  enum class Detail : uint8_t { kNone, kFreed, kArithmetic, kAlignment };
  attn_report_kind kind;
  std::array<uint32_t, 3> block, thread;
  std::string message, file;
  int line;
  Detail detail = Detail::kNone;
};

enum class Stage : int32_t { kAll, kPartial, kReduce };

// Whose intermediates are asked for: attn_probe.
struct ProbeRequest {
  std::array<uint32_t, 3> block = {0, 0, 0};
  uint32_t warp = 0;
};
// What the kernel recorded, as attn_probe describes it. Empty: it records nothing,
// or no such block and warp has anything to do.
struct Probe {
  std::vector<float> values;
  uint64_t used = 0;  // numbers it wanted to record; above values.size() the others are lost
};

// How a run ended. Exactly one of: finished with a status; crashed; timed out
// (then status is ATTN_FAULT).
struct RunReply {
  attn_status status = ATTN_OK;
  std::optional<Fault> fault;
  std::optional<std::string> crash;  // as in PlanReply: "exit status 3 in run()"
  Death death = Death::kNone;        // of a crash
  bool timed_out = false;            // the watchdog ended the worker
  std::string site;                  // of a crash or a hang: where in the kernel's code; empty: not known
  double seconds = 0;                // inside run(), synchronised
  Cheat cheat = Cheat::kNone;        // what a run that did not end well was about, as far as the target knows
  std::optional<Probe> probe;        // of a run that came back, if Target::probe() asked for one
};

// How long a call may take before it counts as a hang. Brief is for looking at
// many cases of which some hang; what it calls a hang is to be confirmed.
enum class Watch { kFull, kBrief };

class Target;

// While it lives, calls get the brief watch if what is looked at hangs: most variants of such a case hang too.
// Any other failure is looked at with the full watch, or a slow kernel's wrong numbers would be told as a hang.
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
class Twin;
struct Case;

class Target {
 public:
  virtual ~Target() = default;
  virtual const KernelInfo& info() const = 0;
  // Memory that the kernel's tensors must lie in. Attn_tensors passed below
  // hold addresses in this process; the target translates them.
  virtual Arena& arena() = 0;
  // Says what of the arena the next calls of run() use (LaidOut::ranges()). To be
  // called before plan(), and again once the workspace is placed. A device with
  // memory of its own gets these bytes before each run and gives them back after
  // it; a kernel on the CPU works in the arena itself.
  virtual void memory(std::span<const MemoryRange> ranges) { (void)ranges; }
  // A problem with features that the kernel does not know is never offered to it:
  // ATTN_UNSUPPORTED, with a reason.
  virtual PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) = 0;
  // `stream`: 0 or 1, of two that the target keeps. Callbacks, stream pointer
  // and probe in `env` are the target's business and ignored here.
  virtual RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors,
                       const attn_plan& plan, const attn_env& env, int stream) = 0;
  // For all calls from now on; kFull at the beginning.
  virtual void watch(Watch watch) { (void)watch; }
  // Forgets all that the kernel's library may have kept from the calls so far.
  virtual void renew() {}
  // What all runs from now on are asked for; nothing at the beginning.
  virtual void probe(const std::optional<ProbeRequest>& request) { (void)request; }
  // How often each edge of the kernel's code was taken by a call of run(), one bit
  // each for 1, 2, 3, 4-7, 8-15, 16-31, 32-127 and more; of several runs since the
  // last time it was asked, all their bits. Of runs that came back, and of a kernel
  // that counts: built for the lane "coverage" or a sanitizer's. Empty otherwise. An
  // edge's place is the same in all runs of a library. Valid until the next run.
  virtual std::span<const uint8_t> coverage() const { return {}; }
  // Where a kernel with stages keeps its partials: inside the planned workspace,
  // aligned, strides not negative. Nothing for a kernel without stages, and for
  // one whose answer breaks these rules or kills the worker: *why then says so,
  // and is left empty otherwise.
  virtual std::optional<attn_partials> partials(const attn_problem& problem, const attn_plan& plan,
                                                std::string* why = nullptr) = 0;

  // By which its runs are judged, beside the CPU's (oracles.h); none: by the CPU's alone.
  std::shared_ptr<Oracles> oracles = {};
  // Whose bits it must have (twin.h); none: nobody's.
  std::shared_ptr<Twin> twin = {};
  // Told of each run of all stages or of the first, before it: whoever counts what reaches a kernel
  // (fuzz/check/census.h). Null: nobody.
  std::function<void(const Case& c, const attn_plan& plan)> on_run = {};
  // What the caller says that it takes; none: what it says itself.
  std::optional<attn_domain> terms = {};
};

inline BriefWatch::BriefWatch(Target& target, bool hangs) : target_(target) {
  target_.watch(hangs ? Watch::kBrief : Watch::kFull);
}
inline BriefWatch::~BriefWatch() { target_.watch(Watch::kFull); }

}  // namespace attnfuzz
