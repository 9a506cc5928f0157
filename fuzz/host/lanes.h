// Lanes: how a kernel is built and run, as cmake/AttnfuzzLanes.cmake has them, one row each.
//
//   const Lane* lane = find_lane("msan-O0");    // nullptr: there is none
//   lane->runtime                               // "msan": of the worker and the executor
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace attnfuzz {

struct Lane {
  enum Kind {
    kPlain,  // runs the plain library
    kBuilt,  // has libraries of its own, compiled for it
    kTool    // runs under compute-sanitizer, on a GPU
  };
  const char* name;
  Kind kind;
  const char* runtime;  // "asan", "msan", "tsan": the sanitizer of its worker; "none"; "tool"
  double watchdog;      // seconds that a call without work is given
  const char* words;

  bool sanitizer() const { return kind == kBuilt && std::string_view(runtime) != "none"; }
};

std::span<const Lane> lanes();
const Lane* find_lane(std::string_view name);

// "plain, schedules, asan, ...": those that check and fuzz targets may be given.
std::string lane_list(bool with_tools);

// Seconds of processor time on the CPU, of the clock on a GPU.
double default_watchdog(int32_t backend, std::string_view lane);

}  // namespace attnfuzz
