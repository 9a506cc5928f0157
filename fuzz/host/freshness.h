// Checks that a loaded library was built from the sources as they are now.
//
// A team once chased a fixed bug for days in a stale binary. Every verdict
// prints the hash of the sources a kernel was built from; where their tree is
// at hand, `check` compares and refuses to judge a stale library.
#pragma once

#include <optional>
#include <string>

#include "properties/judge/target.h"

namespace attnfuzz {

enum class Freshness {
  kFresh,     // every file in the tree is the one that was compiled
  kStale,     // a file was edited or is gone: build again
  kNoTree,    // the tree is not on this machine: nothing can be said
  kUnknown,   // the library does not say what it was built from
  kNotAsked,  // the library is a stranger's, and the files that it names are not read
};

struct FreshnessReply {
  Freshness freshness;
  std::string message;  // for a person; names the first file that differs
};

FreshnessReply freshness(const BuildInfo& build);
// Checks a kernel and the worker that runs it, executor included. The reply is of the first that is stale, and
// of the kernel if none is.
FreshnessReply freshness(const KernelInfo& kernel);

// The first file that two libraries, of one kernel in two builds, were built from differently, wherever their
// tree is now; nothing if there is none, or one of them does not say.
std::optional<std::string> built_differently(const BuildInfo& one, const BuildInfo& other);

// The message if it is stale; nothing otherwise.
std::optional<std::string> stale(const BuildInfo& build);
std::optional<std::string> stale(const KernelInfo& kernel);

}  // namespace attnfuzz
