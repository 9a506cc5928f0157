// The worker's loop: wait for a request in the wire, do it, answer.
#pragma once

#include "fuzz/host/wire.h"
#include "fuzz/worker/library.h"
#include "fuzz/worker/memory/memory.h"

namespace attnfuzz::worker {

// Fills wire.description, says kReady, then serves until the parent kills it or it has sent its
// last answer (Answer::retiring). Returns the exit status.
int serve(wire::Wire& wire, const Library& library, Memory& memory, const Arena& arena);

// Called by a kernel that compiles while it runs: with true when compiling begins, with false when it ends
// (wire::Compiling).
void compiling(bool begins);

}  // namespace attnfuzz::worker
