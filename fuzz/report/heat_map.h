// The largest error/bound over (seq_q, seq_k): where a kernel comes close to its
// bound, and which lengths nobody has tried.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "fuzz/campaign/store/archive.h"

namespace attnfuzz::report {

using Heat = std::map<std::pair<int, int>, HeatCell>;

// A <figure>; queries downwards, keys to the right, lengths in powers of two.
std::string heat_map(const std::string& title, const Heat& heat);

// "0", "1", "2", "4", ...: the largest length of a bucket.
std::string bucket_name(int bucket);

}  // namespace attnfuzz::report
