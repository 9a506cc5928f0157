// Compares FA-1 with the oracle.
#include "fuzz/targets/target.h"

namespace attnfuzz {

extern const FuzzTarget kFuzzTarget = {
    "fuzz_fa1", {"fa1"}, [](Bench& bench, const Case& c) { return bench.judge(0, c, "reference"); }};

}  // namespace attnfuzz
