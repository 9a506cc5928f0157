// A check: many drawn cases of one kernel, each judged by one property.
//
//   1. run_shard() draws case i from (seed, i) and judges it by property i mod P. Job j of N takes
//      i = j, j + N, ...; the verdict on a case does not depend on the job.
//   2. The failure with the lowest index ends the run, so the result does not depend on the number of
//      jobs. With keep_going the run continues and keeps the first failure of each kind class.
//   3. confirm() judges a failure again in fresh workers. Its first verdict stays.
//   4. reduce_failure() reduces it, and it is written as a reproducer.
//
// Jobs are processes, each with its own target (and so its own worker). A job publishes which case it judges
// before it begins. If the job dies, that is a failure of the case. With `batch`, jobs are threads of a few
// processes, and the threads of a process share its target (fuzz/batch/shared_target.h): while one uses the
// device, the others draw, prepare and compare.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "fuzz/check/counts/census.h"
#include "fuzz/check/counts/statistics.h"
#include "properties/case/codec/codec.h"
#include "properties/draw/coverage.h"
#include "properties/draw/generator.h"
#include "properties/draw/long_rows.h"
#include "properties/judge/trial.h"
#include "properties/reduce/reduce.h"
#include "properties/reduce/reproducer.h"

namespace attnfuzz {

// The problems that a kernel must take, as the caller says. If the kernel is trusted, its own declaration
// narrows these terms further.
struct Terms {
  attn_domain domain = {};
  std::set<std::string> sizes;  // the names of the sizes that --domain limits
  Refused refused = {};         // features that the kernel need not take
  std::string errors;           // the words lse_base and lse_dead, which count as words of --errors
};

struct CheckOptions {
  uint64_t seed = 1;
  uint64_t first = 0;     // the case to begin with
  uint64_t cases = 1000;  // the number of cases
  double seconds = 0;     // > 0: as many cases as fit, instead of `cases`
  std::vector<const Property*> properties;
  int jobs = 1;
  int64_t work = 0;  // multiply-adds that a case may cost; 0: the back end's default
  int32_t max_variant = 1 << 30;
  int32_t arithmetic = ATTN_ARITHMETIC_ANY;  // of every case
  std::string path;    // not empty: only cases that take this path through the kernel (kernel_path.h)
  uint32_t batch = 0;  // > 0: this many cases at once, on a target that can judge batches (batch_judge.h)
  int workers = 2;     // the most processes with `batch`
  int own_workers =
      2;  // own workers of each of these processes, for cases that no batch judges (own_workers.h)
  int64_t device_work =
      kDeviceWork;  // with `batch`: work of a case with a long row (long_rows.h); 0: as on a CPU
  std::optional<Terms> terms = {};      // the caller's terms
  std::optional<Refused> refused = {};  // refusals of the kernel, if they are known (refusals.h)
  bool finite = false;  // Q, K and V hold neither NaN nor infinity, even if the kernel takes them
  std::optional<GeneratorConfig> config = {};  // config_for() of these options; if empty, each job makes it
  uint32_t asan_every = 0;                     // one case in this many is run in the build asan; 0: none
  std::function<std::unique_ptr<Target>()> open_asan = {};  // null, or returns null: there is no such build
  bool keep_going = false;            // after a failure, look for others of another kind class
  std::function<bool()> interrupted;  // asked about twice a second; true ends the check with the results so far
};

struct Failure {
  uint64_t index = 0;
  Case c = {};           // as adapted by the property
  Verdict verdict = {};  // the first verdict, even if a later run gave another one
  const Property* property = nullptr;
  bool fatal = false;     // the case killed its job, so it is not judged again
  bool flaky = false;     // it did not fail again, see confirm()
  std::string file = {};  // the file of a failure that was found earlier; `index` is then unused
};

// A case that passed with a statistical warning.
struct WarnedCase {
  uint64_t index = 0;
  StatisticalWarning warning = {};
};

struct CheckResult : Statistics {
  StreamDigest digest;
  Coverage coverage;                 // of the cases that were judged, as adapted
  Census census;                     // of the calls that reached the kernel
  std::vector<Failure> failures;     // the first of each kind class by index, in ascending order
  std::vector<WarnedCase> warnings;  // the first of each sign by index
  std::vector<Assumption> assumptions;
  double declared = 0;       // the sum of Verdict::declared ...
  uint64_t declared_of = 0;  // ... and the number of cases in it
  double seconds = 0;
  bool interrupted = false;
  std::vector<uint64_t> given_up;  // unfinished cases of an interrupted check
  std::vector<uint64_t>
      died_with;           // cases in flight in a process that died, except the one named as its failure
  uint64_t uncounted = 0;  // cases judged by processes that ended without an answer; no other count has them
  uint64_t never_run = 0;  // with keep_going: cases that a dead process had not begun
  using Statistics::add;
  // Drops a failure that has the kind class of an earlier one.
  void add(Failure failure);
  void add(WarnedCase warned);
  void assume(const std::vector<Assumption>& what);
  void merge(const CheckResult& other);
};

// Makes a target of the kernel under check; called once in each job.
using OpenTarget = std::function<std::unique_ptr<Target>(std::string* error)>;
// Called about twice a second while a check runs.
using OnProgress = std::function<void(uint64_t done, uint64_t of, double seconds)>;

// The generator's configuration, made from the target's own plans; options.config if that is set.
GeneratorConfig config_for(Target& target, const CheckOptions& options);

// Throws std::runtime_error if a target cannot be opened or a job dies outside of a case.
CheckResult check(const OpenTarget& open, const Calibration& calibration, const CheckOptions& options,
                  const OnProgress& progress);

// Judges a failure again, each time in a fresh worker, at most `times` times, and stops once it
// fails with the same reduction key. Returns a failing verdict: one with the reduction key of
// `first` if there was one, else the last. Returns nothing if no run failed. Then the failure is
// flaky or depends on earlier cases; it still counts, and its first verdict is all that is known.
// For a hang, the brief watch is used during this function.
std::optional<Verdict> confirm(const Case& c, const Verdict& first, const Property& property, Target& target,
                               const Calibration& calibration, int times = 2);

// The reasons why a check without a failure does not pass, one sentence each, with what to do: too
// little was judged (enough.h), or floors of the draw were broken that `refused` does not explain.
// Floors are checked only if `whole` is true, which means that all properties took part.
std::vector<std::string> not_judged(const CheckResult& result, const std::string& kernel,
                                    const Refused& refused, bool whole);

// The kernel's name on a command line: one of our own kernels by its name, a plug-in by its path, with
// ":KERNEL" if the library has several.
std::string command_name(const KernelInfo& kernel);
// The name of the target's peer build on a command line; empty if none was given.
std::string peer_name(const Target& target);

// The reproducer of a judged case, complete except for the parts that a reduction adds.
Reproducer reproducer_of(const Case& c, const Verdict& verdict, const KernelInfo& kernel, Target& target);

// The same, for a case that must not be laid out again or that has no target any more. It has no digests of its
// tensors and no peer build.
Reproducer without_digests(const Case& c, const Verdict& verdict, const KernelInfo& kernel);

// The error names the file.
std::variant<Reproducer, DecodeError> read_reproducer(const std::string& path, const ReadLimits& limits = {});

// Reduces a failing case, and calls options.on_better with each better one. A failure that does not
// need the property that found it is reduced with the simplest property, `reference`: the verdict
// of the reduction names the one that was used.
Reduction reduce_failure(const Case& c, const Verdict& verdict, const Property& property, Target& target,
                         const Calibration& calibration, const ReduceOptions& options);

}  // namespace attnfuzz
