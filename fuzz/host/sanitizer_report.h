// Reads a sanitizer's report, printed before it ended a worker, as a Fault.
//
//   auto fault = sanitizer_fault(process.output(), "lib/libattn_mine_cpu-tsan.so", places);
//   // RACE: "data race: write of 4 bytes by one thread, read of 16 by another before; at score.h:41 and
//   load.h:12"
//
// Runtimes print offsets into the library. llvm-symbolizer, if installed, turns them into lines. It is slow, so
// each place is looked up once.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "properties/judge/target/target.h"

namespace attnfuzz {

struct SourcePlace {
  std::string file;  // empty: not known
  int line = 0;
};

// Looks up places of one library, and caches them.
class SourcePlaces {
 public:
  explicit SourcePlaces(std::string library) : library_(std::move(library)) {}
  SourcePlace at(uint64_t offset);

 private:
  std::string library_;
  std::map<uint64_t, SourcePlace> known_;
};

// The key by which such failures are grouped: the kind and the place, as site.h does for crashes.
//
//   "AddressSanitizer at kernels/forward/store.h:41"     the line, because each instantiation has its own offsets
//   "MemorySanitizer at libmine_cpu-msan.so+0x1a2f"      if no line is known
//
// A race has no such key: which of its two accesses comes first is chance.
struct SanitizerFault : Fault {
  std::string site;
};

// Nothing if `output` holds no report. `describe_address` names the object at an address of the worker, or
// nothing.
std::optional<SanitizerFault> sanitizer_fault(const std::string& output, const std::string& library,
                                              SourcePlaces& places,
                                              const std::function<std::string(uint64_t)>& describe_address);

}  // namespace attnfuzz
