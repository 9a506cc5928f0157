// Whether a failing case shows a bug that is known already, or another one.
//
// A kernel may have several bugs, and a reduction ends in the simplest that its case
// shows. What a finding needs tells them apart. A finding explains a case that has
// all it needs, and passes without any one of these things. What hides keys may be
// said in many words: a case that hides them otherwise is restated first, and is
// explained only if it then fails with the same error.
//
//   const Need need = need_of(minimal, needs);             // seq_k >= 65, a mask
//   Explained e = explains(need, c, verdict, judge_it);    // this bug, as far as one can tell?
//
// Sizes of 1 and values cannot be taken away, and are no part of it. A finding of
// which there is nothing to take away explains every failure of its kind.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "properties/case.h"
#include "properties/verdict.h"

namespace attnfuzz {

struct Need {
  struct Size {
    int dial = 0;        // index into dials()
    int64_t value = 0;   // of the minimal case
    int64_t period = 0;  // 0: at least the value; > 0: its remainder; kExactly
    static constexpr int64_t kExactly = -1;
  };
  std::vector<Size> sizes;
  std::vector<int> switches;       // indices into switches()
  int64_t tile_q = 0, tile_k = 0;  // of the minimal case's plan: lengths tell only where tiles are the same
};

// `needs` as Reduction says them.
Need need_of(const Case& minimal, const std::vector<std::string>& needs);

// Judges a case by the property `reference`. What fails in another way than the case
// at hand, with another reduction key, is told as a rejection.
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
Explained explains(const Need& need, const Case& c, const Verdict& verdict, const JudgeIt& judged);

}  // namespace attnfuzz
