// The work of a worker from its start to its end, whatever program started it.
#pragma once

#include <functional>
#include <string>

#include "fuzz/sandbox/confine.h"
#include "fuzz/worker/library.h"

namespace attnfuzz::worker {

// Maps the memory that the parent shares (host/wire.h), opens the device, gives up the rights that the parent names
// (confine.h), gets the kernel from `open`, and serves requests. Returns the exit status; a refusal is told through the
// wire.
int work(const Confined& confined, const std::function<Library(attn_backend)>& open);

// Dies with `parent`, and leaves no core file, which would hold the arena. Returns false if `parent` has died already.
bool live_with(int parent);

// wire::kExitUsage, with words on stderr.
int usage(const char* why);

}  // namespace attnfuzz::worker
