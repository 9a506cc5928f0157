// Draws sessions: a short life of a few sequences, each step legal.
//
//   Session s = draw_session(seed, targets);   // equal seeds and kernels give equal sessions
#pragma once

#include <cstdint>

#include "properties/sequences/run.h"

namespace attnfuzz::sequences {

// `features`: what all kernels take, as attn_kernel.features.
Session draw_session(uint64_t seed, uint64_t features);
// The features that all kernels of these have.
uint64_t common_features(const SessionTargets& targets);

}  // namespace attnfuzz::sequences
