// The bug that a build should detect, seeded in a kernel of its own (run/seeded_bugs.cu), and the kind that its
// failure must have. The bug is chosen by the build's sanitizer runtime, so a new sanitizer build automatically
// has one.
//
//   seeded_bug_for("msan-O0")   {"seeded-bug-uninitialised", Kind::kUninitialised}
#pragma once

#include <string_view>

#include "fuzz/host/build_kinds.h"
#include "properties/judge/verdict.h"

namespace attnfuzz {

struct SeededBug {
  const char* kernel;
  Kind kind;
};

inline SeededBug seeded_bug_for(std::string_view build_kind) {
  const BuildKind* row = find_build_kind(build_kind);
  const std::string_view runtime = row == nullptr ? "none" : row->runtime;
  if (runtime == "asan") return {"seeded-bug-address", Kind::kAddress};
  if (runtime == "msan") return {"seeded-bug-uninitialised", Kind::kUninitialised};
  if (runtime == "tsan") return {"seeded-bug-race", Kind::kRace};
  return {"seeded-bug", Kind::kWrong};
}

// True for the name of a target that is a seeded bug. Version 0.1 called these targets canaries, and folders
// that it wrote can still hold their crashes.
inline bool is_seeded_bug(std::string_view target) {
  return target.starts_with("seeded-bug.") || target.starts_with("canary.");
}

}  // namespace attnfuzz
