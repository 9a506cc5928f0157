// The kinds of problem that a reader was written for.
//
// attn_problem.features names what a problem asks beyond a dense 16-bit forward call. Whoever reads a problem
// field by field (an oracle, an exporter, a probe) would take a kind that it does not know for another one, and
// a kernel that ignores the new field too would be judged right. So each reader says which bits it knows and
// refuses the others by name. A new bit is added to a reader where that reader follows it.
//
//   constexpr KnownFeatures kKnown = {"the oracle", ATTN_FEATURE_F32};
//   if (const std::string why = unknown_features(kKnown, problem.features); !why.empty()) return refuse(why);
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/attention.h"

namespace attnfuzz {

struct KnownFeatures {
  const char* reader;  // with its article: "the oracle"
  uint64_t bits;       // of ATTN_FEATURE_*
};

// "the oracle does not know this kind of problem: attn_problem.features has the bits 0x4"; empty: it knows it.
std::string unknown_features(const KnownFeatures& known, uint64_t features);

// Thrown where a function has no other way to refuse.
struct UnknownFeatures : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};
// Throws UnknownFeatures.
void require_known(const KnownFeatures& known, uint64_t features);

}  // namespace attnfuzz
