// FA-1 and Split-K on the same case: each beside the oracle, then one beside the
// other, held to what both bounds together allow.
//
// What the oracle lets pass in both (rows whose scores overflow, all that is between
// two bounds) they must still agree on as far as they say; and neither may take
// the other's case for something else.
#include "fuzz/targets/target.h"
#include "properties/judge/property.h"
#include "properties/judge/trial.h"

namespace attnfuzz {
namespace {

Judged differ(Bench& bench, const Case& c) {
  const Case cases[] = {bench.in_lane(0, c), bench.in_lane(1, c)};
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
