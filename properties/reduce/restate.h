// The same visible keys in other words.
//
// Attention can hide a key by causality, window, length, mask or bias, and a
// bug in what happens to hidden keys is found through any of them. To end in
// one minimum the reducer restates a case: the same (query, key) pairs visible,
// said in another way. A restatement that fails with the same error, at the
// same place, shows the same bug; one that fails otherwise may be another bug
// and is not followed.
#pragma once

#include <vector>

#include "properties/case/case.h"
#include "properties/judge/verdict.h"

namespace attnfuzz {

struct Restatement {
  Case c;
  bool same_rows;  // false: only one of the queries is left
};
// Other cases with the same visible pairs, or with those of the query where it
// goes wrong; and the case with the splits asked for that its plan chose. Only
// the latter if nothing in the case could hide a key, if a bias has values or NaN lies beyond
// a length, or if it is too large to compare (more than 2^20 pairs).
std::vector<Restatement> restatements(const Case& c, const Verdict& verdict);

// Whether two failures look like one: the same kind, tensor and value, and if
// both cases have the same rows the same place and count.
bool same_error(const Verdict& a, const Verdict& b, bool same_rows);

}  // namespace attnfuzz
