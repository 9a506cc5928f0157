// Messages to a target that is a class (Target::tell): one before each call, and one for each step that changes
// its sequences without a call. They are JSON, which python/attnfuzz/cache.py reads:
//
//   {"begins":true,"setup":{...},"step":2,"call":"append","planned":2,"sequences":[0,2]}
//   {"begins":false,"setup":{...},"step":3,"do":"truncate","sequences":[0],"count":5}
//
// `setup` is that of a file (codec.h). `begins`: this is the first message of the session, so the target makes
// a new instance. A call with a `planned` below its `step` is a replay, and uses what was planned at that step.
// `do` is a verb of session.h that changes sequences without a call.
#pragma once

#include <cstddef>
#include <string>

#include "properties/sequences/run/kernel_calls.h"
#include "properties/sequences/session/session.h"

namespace attnfuzz::sequences {

std::string tell_call(const Setup& setup, bool begins, size_t n, const Call& call);
// For the steps that make no call: new, fork, truncate, free.
std::string tell_step(const Setup& setup, bool begins, size_t n, const Step& step);

}  // namespace attnfuzz::sequences
