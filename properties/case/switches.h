// The features of a case that can be turned off, and added to another case.
//
// The reducer turns them off one by one, and builds small canonical cases out
// of those that it could not turn off. They are the features' own
// (features/feature.h), in the order in which they are worth turning off.
#pragma once

#include <span>
#include <string>

#include "properties/case/case.h"

namespace attnfuzz {

struct Switch {
  const char* name;  // "causal", "key lengths", "layout of k"
  bool (*present)(const Case& c);
  void (*remove)(Case& c);
  // Adds to a canonical case, whose sizes are set, the feature that `from` has:
  // first in its simplest form (choice 0), last as `from` has it. False past the last.
  bool (*add)(Case& to, const Case& from, int choice);
};

std::span<const Switch> switches();

}  // namespace attnfuzz
