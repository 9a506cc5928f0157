// The features of a case that can be turned off, and the numbers that can be lowered.
//
// The reducer turns features off one by one, builds small canonical cases from those that it cannot turn
// off, and lowers numbers. The features define both lists (feature.h); they are in the order in which they
// are worth trying.
#pragma once

#include <span>

#include "properties/case/case.h"

namespace attnfuzz {

// The kind of a toggle, for code that compares cases by their features.
enum class Trait : uint8_t {
  kOwn,          // no other toggle can replace it
  kCounted,      // a number is above its least value; the ShrinkInteger says more
  kSize,         // the same, for a size that does not change what a kernel does at an element
  kValue,        // values in tensors, which do not change that either
  kHidesKeys,    // hides keys; another toggle of this kind may replace it
  kLayout,       // the layout of one tensor; that of another tensor may replace it
  kInputLayout,  // of Q, K or V
};

struct ShrinkToggle {
  const char* name;  // "causal", "key lengths", "the layout of k"
  bool (*present)(const Case& c);
  void (*remove)(Case& c);
  // Adds the feature of `from` to a canonical case whose sizes are set: first in its simplest form (choice 0),
  // last as `from` has it. False after the last form.
  bool (*add)(Case& to, const Case& from, int choice);
  Trait trait = Trait::kOwn;
  const char* integer = nullptr;  // a ShrinkInteger: if the failure needs that number, it needs this toggle
};

std::span<const ShrinkToggle> shrink_toggles();

// The kind decides which values below and above a number are worth trying.
enum class IntegerKind : uint8_t { kGrid, kQueries, kKeys, kDim, kWindow, kKeyLength, kSplits, kParameter };
// A number in a case. set() also changes whatever depends on the number.
struct ShrinkInteger {
  const char* name;  // "seq_k"
  IntegerKind kind;
  int64_t least;
  int64_t (*get)(const Case& c);
  void (*set)(Case& c, int64_t value);
  bool (*there)(const Case& c) = nullptr;  // true if the number exists; nullptr: always

  bool applies(const Case& c) const {
    return (!there || there(c)) && (kind == IntegerKind::kGrid || get(c) >= least);
  }
};

// Sorted by kind, that is, by how much the numbers weigh.
std::span<const ShrinkInteger> shrink_integers();

// Makes a changed case consistent: it removes key lengths without batch entry, planted values outside their
// tensors, layouts of absent tensors, and seeds of fills that use none. It does not change a drawn case,
// which has no such leftovers.
//
//   c.problem.batch = 1;
//   tidy(c);             // one key length, no value planted in batch entry 2
void tidy(Case& c);

}  // namespace attnfuzz
