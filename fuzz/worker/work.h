// A worker's life from start to end, for the programs attnfuzz-worker-* and for hosts (hosted.h).
#pragma once

#include <functional>
#include <string>

#include "fuzz/sandbox/confine.h"
#include "fuzz/worker/library.h"

namespace attnfuzz::worker {

// Maps the memory that the parent shares (host/wire.h), opens the device, gives up the rights that the parent
// names (confine.h), gets the kernel from `open`, and serves requests. Returns the exit status; a refusal is
// reported through the wire.
int work(const Confined& confined, const std::function<Library(attn_backend)>& open);

// Dies with `parent`, and leaves no core file, which would hold the arena. Returns false if `parent` has died
// already.
bool live_with(int parent);

// Prints `why` on stderr and returns wire::kExitUsage.
int usage(const char* why);

}  // namespace attnfuzz::worker
