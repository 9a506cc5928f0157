// Leaves the place of a deadly signal in the wire, then lets the signal do its work;
// and says where the worker is when it is asked, by wire::kWhereSignal.
#pragma once

#include "fuzz/host/wire.h"

namespace attnfuzz::worker {

// Installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT and SIGSYS, and the
// one that answers where it is. Not to be called under a sanitizer, which has handlers
// of its own.
void record_crashes(wire::Crash* where, wire::Samples* stuck);

// The action that replaces a handler before the signal ends the process. It is the only change to the handler
// of a deadly signal that a confined worker may make (restrict_calls.cc).
const void* default_action();

}  // namespace attnfuzz::worker
