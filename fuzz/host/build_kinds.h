// Builds: the ways in which a kernel is compiled and run. Each is a row of
// cmake/AttnfuzzBuilds.cmake.
//
//   const BuildKind* build_kind = find_build_kind("msan-O0");  // nullptr: there is none
//   build_kind->runtime                                        // "msan": of the worker and the executor
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace attnfuzz {

struct BuildKind {
  enum Kind {
    kPlain,  // runs the plain library
    kBuilt,  // has libraries of its own, compiled for it
    kTool    // runs under compute-sanitizer, on a GPU
  };
  const char* name;
  Kind kind;
  const char* runtime;  // the sanitizer of its worker: "asan", "msan", "tsan", "none"; or "tool"
  double watchdog;      // seconds that a call without work is given
  const char* words;

  bool sanitizer() const { return kind == kBuilt && std::string_view(runtime) != "none"; }
};

std::span<const BuildKind> build_kinds();
const BuildKind* find_build_kind(std::string_view name);

// "plain, schedules, asan, ...": the builds that check and fuzz targets accept.
std::string build_kind_list(bool with_tools);

// The watchdog's seconds for a call without work: processor time on the CPU, the clock on a GPU.
double default_watchdog(int32_t backend, std::string_view build_kind);

}  // namespace attnfuzz
