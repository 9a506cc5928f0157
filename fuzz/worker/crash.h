// Leaves the place of a deadly signal in the wire, then lets the signal do its work;
// and says where the worker is when it is asked, by wire::kWhereSignal.
#pragma once

#include "fuzz/host/wire.h"

namespace attnfuzz::worker {

// Installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT and SIGSYS, and the
// one that answers where it is. Not to be called under a sanitizer, which has handlers
// of its own.
void record_crashes(wire::Crash* where, wire::Samples* stuck);

// What a handler is replaced by before the signal does its work: the one change of a deadly
// signal's handler that a confined worker may make (restrict_calls.cc).
const void* default_action();

}  // namespace attnfuzz::worker
