// The result of a check.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "properties/judge/shape/shape.h"
#include "properties/judge/statistical_warning.h"
#include "properties/judge/target/target.h"
#include "reference/model/assumption.h"

namespace attnfuzz {

enum class Outcome { kPass, kRefused, kNotJudged, kFail };

// The kinds of failure, finely divided. kind_class() maps them to the coarse classes of the reduction key;
// a reduction may move between kinds of one class.
enum class Kind {
  kNone,
  kWrong,          // a finite value outside its bound
  kNonFinite,      // NaN or Inf instead of a number, or a number instead of NaN
  kUnwritten,      // an element of an output was never written
  kRelation,       // each result is within its bound, but the property's relation does not hold
  kRedzone,        // memory outside a tensor was written
  kInputChanged,   // an input was written
  kDirty,          // the result depends on the workspace's content, or differs from call to call
  kRefusal,        // refused without a reason or after planning, accepted nonsense, or wrote in plan()
  kFault,          // the executor or the CUDA runtime stopped the kernel
  kAddress,        // sanitizer: access out of bounds
  kUndefined,      // sanitizer: undefined behaviour of C++
  kUninitialised,  // sanitizer: use of an uninitialised value
  kRace,           // unordered accesses of two threads to one place
  kHang,           // the watchdog stopped the kernel, and no block was ending
  kCrash,          // the worker died
  kBadPlan,        // the plan is impossible; nothing was run
  kOracle,         // two oracles disagree: no fault of the kernel (oracles.h)
  kBits,           // within its bound, but not the bits of its peer build (peer.h)
  kSlow,           // the watchdog stopped the kernel while blocks were ending
};
inline constexpr int kKindCount = static_cast<int>(Kind::kSlow) + 1;
const char* to_string(Kind kind);
// In JSON and in files: "wrong", "non-finite", ... (docs/checks.md); kRedzone is "guard", its old name.
const char* kind_class(Kind kind);

// The place where an output first goes wrong.
struct Where {
  TensorId tensor = TensorId::kO;
  int64_t b = 0, h = 0, q = 0, d = 0;  // q: the row of a head: a query, or a key of an output of keys
  int64_t tile_q = 0;                  // q / plan.tile_q, or tile_k
  double got = 0, expected = 0, bound = 0;
  int64_t bad = 0, of = 0;  // elements out of bounds, elements judged
};

struct Verdict {
  Outcome outcome = Outcome::kPass;
  Kind kind = Kind::kNone;
  std::string property;
  std::string message;   // one line for people
  std::string site;      // of a crash or a hang: "SIGSEGV at libmine.so+0x1a2f"; empty if not known
  bool refused = false;  // for kRefused: the kernel refused, not the property
  ExitReason exit_reason = ExitReason::kNone;  // for kCrash
  Exploit exploit = Exploit::kNone;            // for a failure, if known
  // The shape of the error: "only query tile 0", "constant ratio 1.48"; empty if none is recognised.
  std::vector<Shape> shapes;
  std::optional<Where> where;
  std::optional<Fault> fault;
  // set if a single case failed on its own, not by the relation between cases: the drawn case or one of its
  // variants
  std::optional<Case> failing;
  int call = 0;               // the call of the case, or the variant of the relation
  double worst = 0;           // largest error/bound of all judged outputs
  bool by_bits = false;       // a relation has compared results bit for bit
  std::string by_bounds;      // why a relation has compared some within their bounds only; empty: it has not
  std::vector<float> ratios;  // the largest error/bound of every judged run, for the median over cases
  attn_plan plan = {};        // of the case itself
  int64_t rows = 0, sampled = 0, dead_rows = 0, uninformative_rows = 0, unconstrained_rows = 0;
  std::vector<Assumption> assumptions;  // classes that the plan left open
  // The share of O's bound that exists because the plan declares a loose class or leaves it open
  // (reference/model/error_cap.h, best_plan()). Set if there is an error cap for plans and the case was
  // compared with the oracle.
  std::optional<double> declared;
  std::optional<StatisticalWarning> warning;  // of the case itself, if it did not fail
  // Seconds spent in each stage.
  double lay_out_s = 0, kernel_s = 0, oracle_s = 0, judge_s = 0;
};

// The facts that must stay the same while a case is reduced: kernel, class, build.
std::string reduction_key(const KernelInfo& kernel, const Verdict& verdict);

}  // namespace attnfuzz
