// Draws sessions: a few sequences with a few steps each, every step legal.
//
//   Session s = draw_session(seed, common_features(targets));   // equal seeds and features give equal sessions
#pragma once

#include <cstdint>

#include "properties/case/rng.h"
#include "properties/sequences/session.h"

namespace attnfuzz::sequences {

// `features`: the bits of attn_kernel.features that all kernels have. With ATTN_FEATURE_MERGE some attends are
// split into two calls.
Session draw_session(uint64_t seed, uint64_t features);
Session draw_session(Rng& rng, uint64_t features);

}  // namespace attnfuzz::sequences
