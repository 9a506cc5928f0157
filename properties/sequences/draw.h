// Draws sessions: a short life of a few sequences, each step legal.
//
//   Session s = draw_session(seed, common_features(targets));   // equal seeds and features give equal sessions
#pragma once

#include <cstdint>

#include "properties/case/rng.h"
#include "properties/sequences/session.h"

namespace attnfuzz::sequences {

// `features`: what all kernels take, as attn_kernel.features. ATTN_FEATURE_MERGE: some attends are made in two calls.
Session draw_session(uint64_t seed, uint64_t features);
Session draw_session(Rng& rng, uint64_t features);

}  // namespace attnfuzz::sequences
