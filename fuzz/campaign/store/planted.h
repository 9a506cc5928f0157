// The bug that a build should detect, planted in a kernel of its own (run/canary.cu), and the kind that its failure
// must have. The bug is chosen by the build's sanitizer runtime, so a new sanitizer build automatically has one.
//
//   planted_bug("msan-O0")   {"canary-uninitialised", Kind::kUninitialised}
#pragma once

#include <string_view>

#include "fuzz/host/build_kinds.h"
#include "properties/judge/verdict.h"

namespace attnfuzz {

struct PlantedBug {
  const char* kernel;
  Kind kind;
};

inline PlantedBug planted_bug(std::string_view build_kind) {
  const BuildKind* row = find_build_kind(build_kind);
  const std::string_view runtime = row == nullptr ? "none" : row->runtime;
  if (runtime == "asan") return {"canary-address", Kind::kAddress};
  if (runtime == "msan") return {"canary-uninitialised", Kind::kUninitialised};
  if (runtime == "tsan") return {"canary-race", Kind::kRace};
  return {"canary", Kind::kWrong};
}

}  // namespace attnfuzz
