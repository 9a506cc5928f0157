// Compares Split-K with the oracle.
#include "fuzz/targets/target.h"

namespace attnfuzz {

extern const FuzzTarget kFuzzTarget = {
    "fuzz_splitk", {"splitk"}, [](Bench& bench, const Case& c) { return bench.judge(0, c, "reference"); }};

}  // namespace attnfuzz
