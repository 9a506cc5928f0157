// Checks that a run's inputs are finite, for a kernel that promises nothing for NaN and infinities (hosted.h).
#pragma once

#include <optional>

#include "fuzz/host/wire.h"
#include "properties/memory/arena.h"

namespace attnfuzz::worker {

// The first of Q, K and V in the arena that holds NaN or an infinity, if any. Elements beyond a key length do
// not count: nobody may read them.
std::optional<TensorId> not_finite(const wire::Request& request, const Arena& arena);

}  // namespace attnfuzz::worker
