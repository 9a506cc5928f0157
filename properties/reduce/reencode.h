// Encodes the same visible keys differently.
//
// Attention can hide a key by causality, window, length, mask or bias, and a bug in the treatment of hidden
// keys is found through any of them. To end in one minimum, the reducer re-encodes a case: the same (query,
// key) pairs stay visible by other means. If the new case fails with the same error at the same place, it
// shows the same bug. If it fails differently, it may be another bug and is not followed.
#pragma once

#include <vector>

#include "properties/case/case.h"
#include "properties/judge/verdict.h"

namespace attnfuzz {

struct Reencoding {
  Case c;
  bool same_rows;  // false: a single query is left
};
// Returns other cases with the same visible pairs, or with only the failing query and its visible pairs. Also
// returns the case with the number of splits that its plan chose. Only this one is returned if nothing in the
// case could hide a key, if a bias has values, if NaN lies beyond a length, or if there are more than 2^20
// pairs to compare.
std::vector<Reencoding> reencodings(const Case& c, const Verdict& verdict);

// True if two failures look alike: the same kind, tensor and value; and the same place and count, if both
// cases have the same rows.
bool same_error(const Verdict& a, const Verdict& b, bool same_rows);

}  // namespace attnfuzz
