// Which levels of x86-64 the oracle's inner loops (products.h, row_loops.h) are run at: those that this
// machine has. ATTNFUZZ_LEVEL=x86-64-v3 in the environment leaves out what is above it, to compare them.
#pragma once

#include <cstdlib>
#include <string_view>

namespace attnfuzz {

struct Levels {
  bool v3 = false, v4 = false;
};

inline Levels levels() {
  Levels has;
#ifdef __x86_64__
  has.v3 = __builtin_cpu_supports("x86-64-v3");
  const char* most = std::getenv("ATTNFUZZ_LEVEL");
  has.v4 = __builtin_cpu_supports("x86-64-v4") && !(most && std::string_view(most) == "x86-64-v3");
#endif
  return has;
}

}  // namespace attnfuzz
