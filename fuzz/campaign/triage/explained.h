// Whether a failing case shows a bug that is known already, or another one.
//
// A kernel may have several bugs, and what may become anything that is simpler and
// fails ends in the simplest of them. Three things keep them apart:
//   1. a reduction stays with the bug it began with, as far as one can tell
//      (stays_with): it leaps to no case that has other features or more tiles;
//   2. a finding explains a case that has all it needs, and passes without any one of
//      these things (explains). What hides keys may be said in many words: a case
//      that hides them otherwise is restated first, and is explained only if it then
//      fails with the same error;
//   3. so may a reduced case explain findings that were there before it.
//
//   const NeededParts need = needed_parts(minimal, needs);  // seq_k >= 65, a mask
//   Explained e = explains(need, c, verdict, judge_it);    // this bug, as far as one can tell?
//
// Sizes of 1 and values cannot be taken away, and are no part of it. A finding of
// which there is nothing to take away explains every failure of its kind.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "properties/case/case.h"
#include "properties/judge/verdict.h"
#include "properties/reduce/reduce.h"

namespace attnfuzz {

// What a finding needs, as indices.
struct NeededParts {
  struct Size {
    int dial = 0;        // index into dials()
    int64_t value = 0;   // of the minimal case
    int64_t period = 0;  // 0: at least the value; > 0: its remainder; kExactly
    int64_t least = 0;   // beside a remainder
    static constexpr int64_t kExactly = -1;
  };
  std::vector<Size> sizes;
  std::vector<int> switches;  // indices into switches()
  // Which length is the greater, as a sign. A length that must be just so may be
  // another one where that is the same: "seq_k = 0" beside one query is "more
  // queries than keys".
  int more_queries = 0;
  int64_t tile_q = 0, tile_k = 0;  // of the minimal case's plan: lengths tell only where tiles are the same
};

// `needs` as Reduction has them.
NeededParts needed_parts(const Case& minimal, const std::vector<Need>& needs);

// Whether there is anything that can be taken away.
bool tells_apart(const NeededParts& need);

// For a reduction that is not to go over to another bug (ReduceOptions::may_take).
// No step leads beyond a tile where the best case does not go; a leap leads to a case
// with the same features, values apart, and as many tiles. It does not matter which
// of Q, K and V it is whose layout is odd.
bool stays_with(const Case& best, const Verdict& verdict, const Case& to, Step step);

// Judges a case by the property `reference`. Of a case as it was found, what fails in
// another way, with another reduction key, is told as a rejection: it may be another
// bug of several. Of a reduced one any failure counts.
using JudgeIt = std::function<Verdict(const Case&)>;

enum class Explains {
  kYes,
  kPerhaps,  // it hides keys in words that the finding does not have
  kNo,       // it lacks a thing that the finding needs, fails without it, or holds in the finding's words
};
struct Explained {
  Explains answer;
  // What still fails once things that the finding needs are taken from the case, or the case itself.
  Case c;
  Verdict verdict;
};
Explained explains(const NeededParts& need, const Case& c, const Verdict& verdict, const JudgeIt& judged);

}  // namespace attnfuzz
