// Copies what a library says of itself into the wire.
#pragma once

#include "fuzz/host/wire.h"
#include "fuzz/worker/library.h"

namespace attnfuzz::worker {

// Strings that no longer fit are cut to nothing; counts are never more than what is there.
void describe(const Library& library, const std::string& device, const Arena& arena, wire::Description& out);

}  // namespace attnfuzz::worker
