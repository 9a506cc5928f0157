// Judges appends to caches and copies of pages by the oracle. Each bit of the cache is compared.
#include "fuzz/targets/target.h"

namespace attnfuzz {

extern const FuzzTarget kFuzzTarget = {
    "fuzz_cache", {"cache"}, [](Bench& bench, const Case& c) { return bench.judge(0, c, "reference"); }};

}  // namespace attnfuzz
