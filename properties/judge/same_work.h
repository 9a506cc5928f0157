// Says whether two plans promise equal bits.
#pragma once

#include <string>

#include "kernels/attention.h"

namespace attnfuzz {

// Why two plans do not promise the same arithmetic for one row: "num_splits differs", "a plan is not deterministic".
// Empty if they do: the same path, tiles, splits and classes, and both deterministic. Equal rows then have equal bits.
std::string other_work(const attn_plan& a, const attn_plan& b);
inline bool same_work(const attn_plan& a, const attn_plan& b) { return other_work(a, b).empty(); }

}  // namespace attnfuzz
