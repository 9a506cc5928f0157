// A libFuzzer target over cases: a file that defines kFuzzTarget. CMake finds the file, and harness.cc
// makes a fuzzer of it.
//
//   namespace attnfuzz {
//   extern const FuzzTarget kFuzzTarget = {"fuzz_fa1", {"fa1"}, [](Bench& bench, const Case& c) {
//     return bench.judge(0, c, "reference");
//   }};
//   }
//
// A unit is the text of a case (codec.h), or of a reproducer, whose case is used. It is
//   1. mutated   by decode, mutate(), encode; two are crossed by cross(). Text that does not decode becomes
//                a drawn case, so an empty corpus is a good start
//   2. refused   if it does not decode, is illegal, costs many times what a drawn case may, or is rejected by
//                the kernel: LLVMFuzzerTestOneInput returns -1, and libFuzzer forgets it
//   3. judged    by the target's function, in worker processes
//   4. recorded  as libFuzzer's extra counters: the kernels' edges (Target::coverage) and the situations
//                (situations.h) of every judgement
//   5. failed    if something is wrong: a reproducer is written beside libFuzzer's artifact, and the process
//                aborts, so that libFuzzer keeps the unit
//
// README.md says how to run one, and why kernels run in workers here, too.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "properties/case/case.h"
#include "properties/draw/generator.h"
#include "properties/judge/target/target.h"
#include "properties/judge/verdict.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

// A judgement that counts: the verdict, the kernel's index, and the case that was judged.
struct Judged {
  Verdict verdict;
  size_t kernel = 0;
  Case c;
};

// A target's open kernels, and what all judgements of a process share.
class Bench {
 public:
  explicit Bench(std::vector<std::unique_ptr<Target>> targets);
  Target& target(size_t kernel) { return *targets_[kernel]; }
  const Calibration& calibration() const { return calibration_; }
  const GeneratorConfig& config() const { return config_; }  // from the first kernel's plans
  const GeneratorConfig& most() const { return most_; }      // with room for units that somebody wrote by hand

  // Judges a case, adapted to the property and the kernel's build, and records it. A hang is judged twice.
  // `property`: the command line's choice, if any, replaces it.
  Judged judge(size_t kernel, const Case& c, const std::string& property);
  // Records a judgement that was made elsewhere.
  void record(const Judged& judged);
  // The case as the kernel gets it, with its build.
  Case in_build(size_t kernel, Case c) const;

  std::string wanted_property;  // --property; empty: the target's own

 private:
  std::vector<std::unique_ptr<Target>> targets_;
  Calibration calibration_;
  GeneratorConfig config_, most_;
};

struct FuzzTarget {
  const char* name;
  std::vector<const char*> kernels;  // the defaults; --kernel replaces them in order
  Judged (*judge)(Bench& bench, const Case& c);
};

extern const FuzzTarget kFuzzTarget;

// Why a judgement may depend on earlier cases, for the message of its reproducer; empty if it fails by
// itself in a fresh worker. Leaves the worker fresh.
std::string needs_history(Bench& bench, const Judged& judged);

}  // namespace attnfuzz
