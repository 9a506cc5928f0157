// Says whether two plans promise equal bits.
#pragma once

#include "kernels/attention.h"

namespace attnfuzz {

// True if two plans promise the same arithmetic for one row: the same path, tiles, splits and classes, and
// both deterministic. Equal rows then have equal bits.
bool same_work(const attn_plan& a, const attn_plan& b);

}  // namespace attnfuzz
