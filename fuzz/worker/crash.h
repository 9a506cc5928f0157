// Leaves the place of a deadly signal in the wire, then lets the signal do its work.
#pragma once

#include "fuzz/host/wire.h"

namespace attnfuzz::worker {

// Installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP and SIGABRT.
// Not to be called under a sanitizer, which has handlers of its own.
void record_crashes(wire::Crash* where);

}  // namespace attnfuzz::worker
