// Changes a session at random: for fuzzers that keep sessions which reach new code (fuzz/targets/calls.cc).
#pragma once

#include "properties/case/rng.h"
#include "properties/sequences/session/session.h"

namespace attnfuzz::sequences {

// A legal session with one change: a step removed, a step repeated at the end, a step with other numbers, the
// steps of a drawn session appended, or another cache. Steps that are no longer legal are removed. `features`:
// as in draw_session().
Session mutate_session(const Session& session, Rng& rng, uint64_t features);

}  // namespace attnfuzz::sequences
