// A session in words, a line for each step, with the pages and slots that the step uses:
//
//   0  new s0
//   1  append 3 tokens to s0: page 2, slots 13..15
//   2  append 1 token to s0 s1: copies page 2 to 4; page 4, slot 0; page 5, slot 1
#pragma once

#include <string>
#include <vector>

#include "properties/sequences/session.h"

namespace attnfuzz::sequences {

// The session must be legal.
std::vector<std::string> story(const Session& session);

// The pages that the steps use.
int64_t pages_used(const Session& session);

}  // namespace attnfuzz::sequences
