// Records the place of a deadly signal in the wire, then lets the signal end the process. On
// wire::kWhereSignal it records where the worker is, and the worker goes on.
#pragma once

#include "fuzz/host/wire.h"

namespace attnfuzz::worker {

// Installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS and
// wire::kWhereSignal. Do not call it under a sanitizer, which has handlers of its own.
void record_crashes(wire::Crash* where, wire::Samples* stuck);

// The action that replaces a handler before the signal ends the process. It is the only change to the handler
// of a deadly signal that a confined worker may make (restrict_calls.cc).
const void* default_action();

}  // namespace attnfuzz::worker
