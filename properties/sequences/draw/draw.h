// Draws sessions: a few sequences with a few steps each, every step legal.
//
//   Session s = draw_session(seed, common_features(targets));   // equal seeds and features give equal sessions
#pragma once

#include <cstdint>
#include <span>

#include "properties/case/rng.h"
#include "properties/sequences/session/session.h"

namespace attnfuzz::sequences {

// `features`: the bits of attn_kernel.features that all kernels have. With ATTN_FEATURE_MERGE some attends are
// split into two calls. `domains`: what kernels declare to take. Heads, dims and the format are drawn inside.
Session draw_session(uint64_t seed, uint64_t features, std::span<const attn_domain> domains = {});
Session draw_session(Rng& rng, uint64_t features, std::span<const attn_domain> domains = {});

}  // namespace attnfuzz::sequences
