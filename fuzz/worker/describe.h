// Copies a library's description of itself into the wire.
#pragma once

#include "fuzz/host/wire.h"
#include "fuzz/worker/library.h"

namespace attnfuzz::worker {

// A string that no longer fits becomes empty. Counts never exceed the number of strings in the
// wire.
void describe(const Library& library, const std::string& device, const Arena& arena, wire::Description& out);

}  // namespace attnfuzz::worker
