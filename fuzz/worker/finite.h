// Whether a run's inputs are numbers, for a kernel that promises nothing where they are not (hosted.h).
#pragma once

#include <optional>

#include "fuzz/host/wire.h"
#include "properties/memory/arena.h"

namespace attnfuzz::worker {

// Which of Q, K and V holds NaN or an infinity, as they lie in the arena; the first, if any. What lies beyond a
// length is nobody's to read, and does not count.
std::optional<TensorId> not_finite(const wire::Request& request, const Arena& arena);

}  // namespace attnfuzz::worker
