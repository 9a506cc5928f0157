// A check: many drawn cases of one kernel, each judged by one property.
//
//   1. shard()   case i is drawn from (seed, i) and judged by property i mod P;
//                job j of N takes i = j, j + N, ...: which job judges a case
//                changes nothing about it
//   2. the first failure by index ends the run: what is found does not depend
//      on the number of jobs
//   3. found()   the failure is reduced and written as a reproducer
//
// Jobs are processes, each with its own target (and so its own worker).
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/check/ratio_histogram.h"
#include "properties/case/codec.h"
#include "properties/draw/generator.h"
#include "properties/judge/trial.h"
#include "properties/reduce/reduce.h"
#include "properties/reduce/reproducer.h"

namespace attnfuzz {

struct CheckOptions {
  uint64_t seed = 1;
  uint64_t first = 0;     // the case to begin with
  uint64_t cases = 1000;  // how many
  double seconds = 0;     // > 0: as many cases as fit, instead of `cases`
  std::vector<const Property*> properties;
  int jobs = 1;
  int64_t work = Aim{}.work;
  int32_t max_variant = 1 << 30;
};

struct PropertyCount {
  uint64_t cases = 0, passed = 0, rejected = 0, uninformative = 0, failed = 0;
  RatioHistogram ratios;  // of every run that was judged
  void merge(const PropertyCount& other);
};

struct Failure {
  uint64_t index = 0;
  Case c;  // as adapted by the property
  Verdict verdict;
  const Property* property = nullptr;
};

struct CheckResult {
  std::map<std::string, PropertyCount> properties;
  std::map<std::string, uint64_t> rejections;  // reason -> count
  Classification classification;
  StreamDigest digest;
  std::optional<Failure> failure;            // the one with the lowest index
  std::array<double, 4> stage_seconds = {};  // lay out, kernel, oracle, judge; summed over jobs
  uint64_t dead_rows = 0, rows = 0, unconstrained_rows = 0, uninformative_rows = 0;
  std::vector<std::string> assumptions;
  double seconds = 0;
  uint64_t cases() const;
  void merge(const CheckResult& other);
};

// Makes a target of the kernel under check; called once in each job.
using OpenTarget = std::function<std::unique_ptr<Target>(std::string* error)>;
// Called about twice a second while a check runs.
using OnProgress = std::function<void(uint64_t done, uint64_t of, double seconds)>;

// What the generator aims at, from the target's own plans.
Aim aim_at(Target& target, const CheckOptions& options);

// Throws std::runtime_error if a target cannot be opened or a job dies.
CheckResult check(const OpenTarget& open, const Calibration& calibration, const CheckOptions& options,
                  const OnProgress& progress);

// The reproducer of a judged case, complete but for what a reduction adds.
Reproducer reproducer_of(const Case& c, const Verdict& verdict, const KernelInfo& kernel, Target& target);

// The same of a case that nobody dares to lay out: without its tensors' digests.
Reproducer without_digests(const Case& c, const Verdict& verdict, const KernelInfo& kernel);

// Reduces a failing case; each better one goes to on_better. What fails by
// itself, whichever property met it, is reduced by the simplest property,
// `reference`: the verdict of the reduction names the one that was used.
Reduction reduce_failure(const Case& c, const Verdict& verdict, const Property& property, Target& target,
                         const Calibration& calibration, const ReduceOptions& options);

}  // namespace attnfuzz
