#include "reference/call/known_features.h"

#include <cstdio>

namespace attnfuzz {

std::string unknown_features(const KnownFeatures& known, uint64_t features) {
  const uint64_t unknown = features & ~known.bits;
  if (unknown == 0) return "";
  char bits[32];
  std::snprintf(bits, sizeof bits, "0x%llx", static_cast<unsigned long long>(unknown));
  return std::string(known.reader) +
         " does not know this kind of problem: attn_problem.features has the bits " + bits;
}

void require_known(const KnownFeatures& known, uint64_t features) {
  if (const std::string why = unknown_features(known, features); !why.empty()) throw UnknownFeatures(why);
}

}  // namespace attnfuzz
