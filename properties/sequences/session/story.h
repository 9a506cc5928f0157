// A session in words, one line per step, with the pages and slots that the step uses:
//
//   0  new s0
//   1  append 15 tokens to s0: page 0, slots 0..14
//   2  fork s0 to s1
//   3  append 1 token to s0 s1: copies page 0 to 1; page 1, slot 15; page 0, slot 15
#pragma once

#include <string>
#include <vector>

#include "properties/sequences/session/session.h"

namespace attnfuzz::sequences {

// The session must be legal.
std::vector<std::string> story(const Session& session);

// The number of pages that the steps use.
int64_t pages_used(const Session& session);

}  // namespace attnfuzz::sequences
