// The memory that a parent and its worker share: one flat struct.
//
// The parent fills in a request, raises `asked` and rings the worker's bell (an eventfd). The
// worker answers into the same struct, raises `answered` to the same number and rings back. Tensors
// are named by offsets in the arena, because the two processes map it at different addresses.
// Before each step the worker writes into `doing` what it is about to do. A signal handler records
// the place of a crash. So the parent can explain a worker's exit.
//
// The kernel runs in the worker and may scribble over all of it. The parent
// copies an answer out once, and trusts nothing in the copy: see
// worker_target.cc. Both are built from this header; `size` and `version` are
// compared when the worker starts.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fuzz/batch/device/call.h"
#include "kernels/attention.h"
#include "kernels/executor/threads/progress.h"
#include "properties/judge/target/target.h"

namespace attnfuzz::wire {

inline constexpr uint32_t kVersion = 14;
// Descriptors that are open when a worker starts. kStatusFd is open only in its supervisor
// (worker/supervisor.h), which writes two int32 there: the worker's process id, and its status from waitpid().
// kProgramFd is also open only there, if the supervisor runs a copy of the worker's program that has no name.
enum Descriptor : int {
  kWireFd = 3,
  kArenaFd = 4,
  kRequestBell = 5,
  kAnswerBell = 6,
  kStatusFd = 7,
  kProgramFd = 8,
  kFirstUnused = 9
};
// The exit statuses of the worker itself. Any other status comes from the kernel.
enum Exit : int { kExitUsage = 121, kExitBells = 122, kExitScribbled = 123 };

// kBatchPlans and kBatchRuns work on the first Request::calls entries of Wire::calls. kTell is Target::tell().
// kVariantPlans is kPlan for the variants 0 to env.variant, and fills in Wire::variant_plans.
enum class Command : uint32_t {
  kPlan = 1,
  kRun = 2,
  kPartials = 3,
  kBatchPlans = 4,
  kBatchRuns = 5,
  kTell = 6,
  kVariantPlans = 7
};
enum class Doing : uint32_t {
  kNothing,
  kLoading,
  kPlanning,
  kRunning,
  kPartialStage,
  kReduceStage,
  kDescribingPartials,
  kTelling
};

struct Tensor {
  uint64_t offset;  // in the arena; Arena::kNowhere if there is no such tensor
  int64_t stride[4];
};

struct Probe {
  int32_t wanted;  // boolean
  uint32_t warp;
  uint32_t block[3];
  uint32_t reserved;
};

struct Request {
  Command command;
  Stage stage;
  int32_t stream;
  uint32_t range_count;  // of Wire::ranges
  attn_problem problem;
  Tensor tensors[kTensorCount];  // by TensorId
  uint64_t workspace_bytes;
  uint32_t tensors_size;  // attn_tensors.size as the caller set it: a kernel must refuse a wrong one
  uint32_t calls;
  attn_env env;  // stream, callbacks and probe NULL
  attn_plan plan;
  Probe probe;      // of kRun
  char told[2048];  // of kTell: JSON, and a NUL
};

struct Report {
  int32_t given;  // boolean: there was a report
  int32_t kind;
  uint32_t block[3], thread[3];
  int32_t line;
  int32_t shared_bytes;
  char message[512], file[256];
};

struct Answer {
  int32_t status;    // attn_status
  int32_t retiring;  // the worker ends after this answer: its device or executor is no longer sound
  int32_t unsteady;  // boolean: two calls of plan() gave different answers; `reason` says how they differ
  int32_t
      no_memory;  // boolean: the device had too little memory for the case, and nothing ran; `reason` says so
  double seconds;
  char reason[512];
  attn_plan plan;
  attn_partials partials;
  Report report;
  uint64_t outputs;  // from a confined worker: hash_outputs() of the outputs when run() returned
};

// An answer to plan() in one variant.
inline constexpr int32_t kMostVariant = 15;
struct VariantPlan {
  int32_t status;    // as in Answer
  int32_t unsteady;
  char reason[512];
  attn_plan plan;
};

// A place in the kernel's code: the innermost frame outside the C library, the drivers and the
// worker itself. All fields are 0 if it is not known.
struct Site {
  uint64_t offset;    // of the instruction, in the module
  uint64_t function;  // where its function begins, in the module
  char module[128];   // file name
};

// Left by the signal handler.
struct Crash {
  int32_t signal;  // 0: none
  int32_t code;
  int32_t call;  // of SIGSYS: the number of the system call that was refused
  int32_t reserved;
  uint64_t address;  // the fault's, in the worker's address space
  uint64_t pc;
  Site site;
};

// The places of a worker that does not answer. The worker records one each time it gets
// kWhereSignal. A process without a handler ignores that signal.
inline constexpr int kWhereSignal = SIGURG;
inline constexpr uint32_t kMostSamples = 15;
struct Samples {
  std::atomic<uint32_t> taken;
  Site site[kMostSamples];
};

// The time that the current call has spent compiling, in nanoseconds of the clock and of the process's
// processor time; and, while it is compiling, the time when that began. The watchdog does not count this time.
struct Compiling {
  std::atomic<uint64_t> clock, processor;
  std::atomic<uint64_t> since, since_processor;  // 0: it is not compiling. `since` is of CLOCK_MONOTONIC
};

// Describes what the worker loaded. Strings lie one after the other in `text`, each with
// its NUL: kernel name, description, build hash, compiler, flags, root, device,
// name and back end ("cpu", "cuda") of all kernels of the library (kernel_count),
// variants, then name and hash of each source file; then the same of the worker: build hash, root, files.
struct Description {
  int32_t backend;
  uint32_t kernel_count, variant_count, file_count, worker_file_count;
  int32_t has_stages, has_build;
  uint64_t features;  // attn_kernel.features
  int32_t cache;      // CacheKind
  int32_t has_domain;
  attn_domain domain;                   // attn_kernel.domain, as far as this version knows it
  uint64_t arena_base;                  // where the worker mapped the arena
  uint64_t library_begin, library_end;  // where the library was loaded
  uint32_t text_bytes;
  char text[256 * 1024];
};

// kRefused: `refusal` says why. kOtherBackend: likewise, but a worker of the other back end may load the
// library.
enum class State : uint32_t { kStarting, kReady, kRefused, kOtherBackend };

inline constexpr uint32_t kMaxRanges = 1 << 16;
inline constexpr uint64_t kProbeValues = 1 << 20;
inline constexpr uint32_t kMaxCounters = 1 << 16;  // our kernels have some 10,000 edges

struct Wire {
  uint32_t version;
  uint32_t measures;  // bits of Measure (confinement.h), set by the parent: how the worker is confined
  uint64_t size;      // sizeof(Wire)
  std::atomic<State> state;
  std::atomic<Doing> doing;
  std::atomic<uint64_t> asked, answered;
  Request request;
  Answer answer;
  VariantPlan variant_plans[kMostVariant + 1];
  Crash crash;
  Samples samples;
  Compiling compiling;
  simt::Progress progress;  // of the current call, if the executor runs its launches
  char refusal[1024];
  Description description;
  MemoryRange ranges[kMaxRanges];
  // The answer to a request that wanted a probe, as much as fits.
  uint64_t probe_used;
  float probe[kProbeValues];
  // How often the last run that returned took each edge of the kernel's code (worker/coverage.h), as many as
  // fit. counter_count is 0 if the library does not count.
  uint32_t counter_count;
  uint8_t counters[kMaxCounters];
  // Calls and results of a batch (fuzz/batch).
  batch::Call calls[batch::kMostCalls];
  batch::Result results[batch::kMostCalls];
  alignas(4096) std::byte readback[batch::kReadbackBytes];  // of the calls that want one
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared between processes");

}  // namespace attnfuzz::wire
