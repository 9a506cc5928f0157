// Checks that a loaded library was built from the sources as they are now.
//
// A stale binary still shows bugs that its sources no longer have. Every verdict prints the hash of
// the sources that the kernel was built from. If the source tree is on this machine, `check`
// compares the two and refuses to judge a stale library.
#pragma once

#include <optional>
#include <string>

#include "properties/judge/target/target.h"

namespace attnfuzz {

enum class Freshness {
  kFresh,     // every file in the tree is the one that was compiled
  kStale,     // a file was edited or is gone: build again
  kNoTree,    // the tree is not on this machine: nothing can be said
  kUnknown,   // the library does not say what it was built from
  kNotAsked,  // the library is untrusted, so the files that it names are not read
};

struct FreshnessReply {
  Freshness freshness;
  std::string message;  // for a person; names the first file that differs
};

FreshnessReply freshness(const BuildInfo& build);
// Checks a kernel and its worker, which contains the executor. The reply is about the first of them that is
// stale, or about the kernel if both are fresh.
FreshnessReply freshness(const KernelInfo& kernel);

// Compares the recorded files of two libraries of one kernel. Returns the first file that differed when they
// were built; nothing if none did, or if a library has no record. Their source trees are not read.
std::optional<std::string> built_differently(const BuildInfo& one, const BuildInfo& other);

// The message of freshness() if the build or the kernel is stale; nothing otherwise.
std::optional<std::string> stale(const BuildInfo& build);
std::optional<std::string> stale(const KernelInfo& kernel);

}  // namespace attnfuzz
