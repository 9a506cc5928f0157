// The stages of Split-K apart: its partials beside the oracle's, its reduction fed
// with the oracle's, and one order of merging beside another.
#include "fuzz/targets/target.h"

namespace attnfuzz {

extern const FuzzTarget kFuzzTarget = {"fuzz_stages", {"splitk"}, [](Bench& bench, const Case& c) {
                                         Judged judged = bench.judge(0, c, "stages");
                                         if (judged.verdict.outcome == Outcome::kFail) return judged;
                                         Judged merged = bench.judge(0, c, "merge_order");
                                         // What only one of the two speaks of is no rejected unit.
                                         if (merged.verdict.outcome == Outcome::kReject) return judged;
                                         return merged;
                                       }};

}  // namespace attnfuzz
