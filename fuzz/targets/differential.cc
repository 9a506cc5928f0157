// FA-1 and Split-K on the same case: each is compared with the oracle, then one with the other, within both
// bounds together.
//
// Only elements with a bound are compared with each other. Rows that are not constrained, elements with a rule
// such as "must be NaN", and infinities that an overflow explains are left to the oracle.
#include "fuzz/targets/target.h"
#include "properties/judge/property.h"
#include "properties/judge/trial.h"

namespace attnfuzz {
namespace {

Judged differ(Bench& bench, const Case& c) {
  const Case cases[] = {bench.in_build(0, c), bench.in_build(1, c)};
  Trial first(cases[0], bench.target(0), bench.calibration()),
      second(cases[1], bench.target(1), bench.calibration());
  const Run *a = first.run(cases[0]), *b = second.run(cases[1]);
  first.verdict().property = second.verdict().property = "reference";
  if (a != nullptr && b != nullptr && !second.all_within(*a, *b, "the same case on both kernels")) {
    second.verdict().property = "differential";
  }
  Judged judged[] = {{first.verdict(), 0, cases[0]}, {second.verdict(), 1, cases[1]}};
  for (const Judged& one : judged) bench.record(one);
  return judged[first.verdict().outcome == Outcome::kFail ? 0 : 1];
}

}  // namespace

extern const FuzzTarget kFuzzTarget = {"fuzz_differential", {"fa1", "splitk"}, differ};

}  // namespace attnfuzz
