// A libFuzzer target over cases: one file that defines kFuzzTarget. CMake finds it,
// and harness.cc makes a fuzzer of it.
//
//   namespace attnfuzz {
//   extern const FuzzTarget kFuzzTarget = {"fa1", {"fa1"}, [](Bench& bench, const Case& c) {
//     return bench.judge(0, c, "reference");
//   }};
//   }
//
// A unit is the text of a case (codec.h), or a reproducer's (its case is taken). It is
//   1. mutated   decode, mutate(), encode; two of them crossed by cross(). What does
//                not decode becomes a drawn case: an empty corpus is a good start
//   2. refused   what does not decode, is illegal or costs many times what a drawn case may:
//                LLVMFuzzerTestOneInput returns -1 and libFuzzer forgets it; so it
//                does with what the kernel rejects
//   3. judged    by the target's function, in worker processes
//   4. recorded  counters of the kernels' edges (Target::coverage) and signals
//                (signals.h) of every judgement, as libFuzzer's extra counters
//   5. failed    a reproducer is written beside libFuzzer's artifact and the process
//                aborts, which makes libFuzzer keep the unit
//
// README.md says how to run one, and why kernels run in workers here too.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "properties/case/case.h"
#include "properties/draw/generator.h"
#include "properties/judge/target.h"
#include "properties/judge/verdict.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

// A judgement that counts, and whose it is: the kernel's index, and what was judged.
struct Judged {
  Verdict verdict;
  size_t kernel = 0;
  Case c;
};

// The kernels of a target, open, and what all of a process's judgements share.
class Bench {
 public:
  explicit Bench(std::vector<std::unique_ptr<Target>> targets);
  Target& target(size_t kernel) { return *targets_[kernel]; }
  const Calibration& calibration() const { return calibration_; }
  const GeneratorConfig& config() const { return config_; }  // from the first kernel's plans
  const GeneratorConfig& most() const { return most_; }      // with room for a unit that someone wrote by hand

  // Judges a case, adapted to the property and the kernel's lane, and records it. A
  // hang is judged twice. `property`: one that the command line asked for goes first.
  Judged judge(size_t kernel, const Case& c, const std::string& property);
  // Records what a judgement made elsewhere has shown.
  void record(const Judged& judged);
  // As a case goes to the kernel: with its lane.
  Case in_lane(size_t kernel, Case c) const;

  std::string wanted_property;  // --property; empty: the target's own

 private:
  std::vector<std::unique_ptr<Target>> targets_;
  Calibration calibration_;
  GeneratorConfig config_, most_;
};

struct FuzzTarget {
  const char* name;
  std::vector<const char*> kernels;  // by default; --kernel replaces them in order
  Judged (*judge)(Bench& bench, const Case& c);
};

extern const FuzzTarget kFuzzTarget;

// Why a judgement must not be trusted to be the case's own, for the message of its
// reproducer; empty if it fails by itself in a fresh worker. Leaves the worker fresh.
std::string needs_history(Bench& bench, const Judged& judged);

}  // namespace attnfuzz
