// The kinds of problem that a reader was written for.
//
// attn_problem.features names what a problem asks beyond a dense 16-bit forward call. A reader of problems
// (an oracle, an exporter, a probe) would silently mistake an unknown kind for a known one, and a kernel
// that ignores the new field, too, would be judged right. Each reader therefore declares the bits that it
// knows, and refuses others by name. A new bit is added to a reader once that reader handles it.
//
//   constexpr KnownFeatures kKnown = {"the oracle", ATTN_FEATURE_F32};
//   if (const std::string why = unknown_features(kKnown, problem.features); !why.empty()) return refuse(why);
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/attention.h"

namespace attnfuzz {

// The features of a forward pass, except ATTN_FEATURE_KV8 and ATTN_FEATURE_KEY_STEP. A reader that handles one
// of these two names it.
inline constexpr uint64_t kForward = ATTN_FEATURE_F32 | ATTN_FEATURE_SINK | ATTN_FEATURE_WIDE |
                                     ATTN_FEATURE_LATENT | ATTN_FEATURE_ALIBI | ATTN_FEATURE_RAGGED |
                                     ATTN_FEATURE_INDEX32 | ATTN_FEATURE_PAGED;

struct KnownFeatures {
  const char* reader;  // with its article: "the oracle"
  uint64_t bits;       // of ATTN_FEATURE_*
};

// "the oracle does not know this kind of problem: attn_problem.features has the bits 0x4"; empty if it is
// known.
std::string unknown_features(const KnownFeatures& known, uint64_t features);

// Thrown by functions that cannot refuse otherwise.
struct UnknownFeatures : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};
// Throws UnknownFeatures if there is an unknown bit.
void require_known(const KnownFeatures& known, uint64_t features);

}  // namespace attnfuzz
