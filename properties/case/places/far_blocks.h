// The rows, or blocks of rows, that lie so far apart that each takes memory of its own.
#pragma once

#include <cstdint>

namespace attnfuzz {

// The most of them in a tensor that a batch takes (fuzz/batch/prepare.cc). A case with more runs by itself, and takes as
// long as a thousand others. So where batches are judged, only so many of 100 such cases have more.
inline constexpr int64_t kMostFarBlocks = 64, kPercentOfMoreFarBlocks = 6;

}  // namespace attnfuzz
