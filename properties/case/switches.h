// What of a case can be turned off or lowered.
//
// The reducer turns switches off one by one, and builds small canonical cases out
// of those that it could not turn off; dials it lowers. They are the features' own
// (features/feature.h), in the order in which they are worth trying.
#pragma once

#include <span>
#include <string>

#include "properties/case/case.h"

namespace attnfuzz {

// What a switch is to whoever compares cases by what they have.
enum class Trait : uint8_t {
  kOwn,          // no other does as well
  kCounted,      // a number above its least, which a dial tells better
  kSize,         // likewise; it takes no part in what a kernel does where
  kValue,        // of the numbers in tensors: takes no part in that either
  kHidesKeys,    // as any other of these may
  kLayout,       // of one tensor, where another's may do as well
  kInputLayout,  // of Q, K or V
};

struct Switch {
  const char* name;  // "causal", "key lengths", "the layout of k"
  bool (*present)(const Case& c);
  void (*remove)(Case& c);
  // Adds to a canonical case, whose sizes are set, the feature that `from` has:
  // first in its simplest form (choice 0), last as `from` has it. False past the last.
  bool (*add)(Case& to, const Case& from, int choice);
  Trait trait = Trait::kOwn;
  const char* dial = nullptr;  // which, where it is needed, says that this is needed, and how much of it
};

std::span<const Switch> switches();

// Which numbers below its own are worth trying, and which above.
enum class DialKind : uint8_t { kGrid, kQueries, kKeys, kDim, kWindow, kKeyLength, kSplits, kParameter };
// A number in a case: how to read it, how to set it along with what hangs on it.
struct Dial {
  const char* name;  // "seq_k"
  DialKind kind;
  int64_t least;
  int64_t (*get)(const Case& c);
  void (*set)(Case& c, int64_t value);
  bool (*there)(const Case& c) = nullptr;  // whether it can be read; nullptr: always

  bool applies(const Case& c) const {
    return (!there || there(c)) && (kind == DialKind::kGrid || get(c) >= least);
  }
};

// By kind, which is how much they weigh.
std::span<const Dial> dials();

// Makes a changed case consistent again: key lengths for each batch entry,
// planted values inside their tensors, no layout for a tensor that is not
// there, no seed for a fill that has none. Changes nothing in a drawn case that
// has no such leftovers.
//
//   c.problem.batch = 1;
//   tidy(c);             // one key length, no value planted in batch entry 2
void tidy(Case& c);

}  // namespace attnfuzz
