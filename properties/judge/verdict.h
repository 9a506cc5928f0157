// What came of a check.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "properties/judge/shape.h"
#include "properties/judge/suspicion.h"
#include "properties/judge/target.h"

namespace attnfuzz {

enum class Outcome { kPass, kReject, kUninformative, kFail };

// What went wrong, finest first. kind_class() maps it to the coarse classes of
// the reduction key: a reduction may move between kinds of one class.
enum class Kind {
  kNone,
  kWrong,          // a finite value outside its bound
  kNonFinite,      // NaN or Inf where a number is due, or a number where NaN is due
  kUnwritten,      // an element of an output was never written
  kRelation,       // each result is within its bound, but the property's own relation does not hold
  kGuard,          // memory outside a tensor was written
  kInputChanged,   // an input was written
  kDirty,          // the result depends on what the workspace held, or differs from call to call
  kRefusal,        // refused without a reason or after planning, accepted nonsense, or wrote in plan()
  kFault,          // the executor or the CUDA runtime stopped the kernel
  kAddress,        // a sanitizer saw: an access outside of what there is
  kUndefined,      // undefined behaviour of C++
  kUninitialised,  // a use of what nothing has written
  kRace,           // two threads unordered at one place
  kHang,           // the watchdog did
  kCrash,          // the worker died
  kBadPlan,        // the plan makes no sense: nothing was run
  kOracle,         // two oracles do not say the same of what is due: no fault of the kernel (oracles.h)
  kBits,           // within its bound, and not the bits of its twin (twin.h)
};
inline constexpr int kKindCount = static_cast<int>(Kind::kBits) + 1;
const char* to_string(Kind kind);
// "wrong", "non-finite", "contract", "fault", "address", "undefined",
// "uninitialised", "race", "hang", "crash", "bad-plan", "oracle" or "bits".
const char* kind_class(Kind kind);

// Where an output first goes wrong, and how it looks as a whole.
struct Where {
  TensorId tensor = TensorId::kO;
  int64_t b = 0, h = 0, q = 0, d = 0;  // q: the row of a head, which is a query
  int64_t tile_q = 0;                  // q / plan.tile_q
  double got = 0, expected = 0, bound = 0;
  int64_t bad = 0, of = 0;  // elements outside, elements judged
};

struct Verdict {
  Outcome outcome = Outcome::kPass;
  Kind kind = Kind::kNone;
  std::string property;
  std::string message;         // one line for a person
  std::string site;            // of a crash or a hang: "SIGSEGV at libmine.so+0x1a2f"; empty if it is not known
  Death death = Death::kNone;  // of kCrash
  Cheat cheat = Cheat::kNone;  // of a failure, where it is known
  // Of the error: "only query tile 0", "constant ratio 1.48"; empty if none is recognised.
  std::vector<Shape> shapes;
  std::optional<Where> where;
  std::optional<Fault> fault;
  std::optional<Case> failing;  // what failed by itself, relation aside: the case, or a variant of it
  int call = 0;                 // which call of the case, or which variant a relation made
  double worst = 0;             // largest error/bound seen, of all outputs judged
  std::vector<float> ratios;    // of every run judged: its largest error/bound (for the median over cases)
  attn_plan plan = {};          // of the case itself
  int64_t rows = 0, sampled = 0, dead_rows = 0, uninformative_rows = 0, unconstrained_rows = 0;
  std::vector<std::string> assumptions;  // classes the plan left open
  // Which share of O's bound is there because the plan says so or leaves it open (reference/model/ceiling.h,
  // best_plan()); where plans have a ceiling, and of a case that was compared.
  std::optional<double> declared;
  std::optional<Suspicion> suspicion;  // of the case itself, where it did not fail
  // Seconds spent, by stage.
  double lay_out_s = 0, kernel_s = 0, oracle_s = 0, judge_s = 0;
};

// What must stay the same while a case is made smaller: kernel, class, lane.
std::string reduction_key(const KernelInfo& kernel, const Verdict& verdict);

}  // namespace attnfuzz
