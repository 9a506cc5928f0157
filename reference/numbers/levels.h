// The x86-64 levels that this machine has, for the oracle's inner loops (products.h, row_loops.h).
// ATTNFUZZ_LEVEL=x86-64-v3 in the environment excludes higher ones, for comparisons.
//
// The same functions are compiled for each level, as members of a struct; its kAll lists them:
//
//   ATTN_LOOPS(Plain, "as compiled");
//   ATTN_LOOPS(Avx2, "x86-64-v3", ATTN_AT_V3);       // on other CPUs: as compiled
//   ATTN_LOOPS(Avx512, "x86-64-v4", ATTN_AT_V4);
//   const std::vector<Loops> all = run_here<Avx512, Avx2, Plain>();
#pragma once

#include <cstdlib>
#include <string_view>
#include <vector>

#ifdef __x86_64__
#define ATTN_AT_V3 [[gnu::target("arch=x86-64-v3")]]
#define ATTN_AT_V4 [[gnu::target("arch=x86-64-v4"), clang::min_vector_width(512)]]
#else
#define ATTN_AT_V3
#define ATTN_AT_V4
#endif

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

// The levels that this machine runs, the best first.
template <class V4, class V3, class Plain>
auto run_here() {
  std::vector all = {Plain::kAll};
  if (levels().v3) all.insert(all.begin(), V3::kAll);
  if (levels().v4) all.insert(all.begin(), V4::kAll);
  return all;
}

}  // namespace attnfuzz
