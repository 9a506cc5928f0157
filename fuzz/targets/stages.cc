// The stages of Split-K separately: its partials are compared with the oracle's, its reduction is fed with
// the oracle's partials, and one order of merging is compared with another.
#include "fuzz/targets/target.h"

namespace attnfuzz {

extern const FuzzTarget kFuzzTarget = {"fuzz_stages", {"splitk"}, [](Bench& bench, const Case& c) {
                                         Judged judged = bench.judge(0, c, "stages");
                                         if (judged.verdict.outcome == Outcome::kFail) return judged;
                                         Judged merged = bench.judge(0, c, "merge_order");
                                         // An input is rejected only if neither property applies to it.
                                         if (merged.verdict.outcome == Outcome::kRefused) return judged;
                                         return merged;
                                       }};

}  // namespace attnfuzz
