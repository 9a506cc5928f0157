// The bug that a lane is there to see, planted in a kernel of its own (run/canary.cu): which
// of them, and the kind that its failure must have. Told by the lane's runtime, so that a
// new lane of a sanitizer has its canary.
//
//   planted_bug("msan-O0")   {"canary-uninitialised", Kind::kUninitialised}
#pragma once

#include <string_view>

#include "fuzz/host/lanes.h"
#include "properties/judge/verdict.h"

namespace attnfuzz {

struct PlantedBug {
  const char* kernel;
  Kind kind;
};

inline PlantedBug planted_bug(std::string_view lane) {
  const Lane* row = find_lane(lane);
  const std::string_view runtime = row == nullptr ? "none" : row->runtime;
  if (runtime == "asan") return {"canary-address", Kind::kAddress};
  if (runtime == "msan") return {"canary-uninitialised", Kind::kUninitialised};
  if (runtime == "tsan") return {"canary-race", Kind::kRace};
  return {"canary", Kind::kWrong};
}

}  // namespace attnfuzz
