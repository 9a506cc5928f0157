// Which parts of a minimal case the failure hangs on.
//
// Each part is varied by itself: a number raised, a feature added or taken
// away, values exchanged. A part that may change freely is indifferent; one
// that may not is needed (need.h). What is said is what was tried, not a proof.
#pragma once

#include <string>
#include <vector>

#include "properties/reduce/need.h"
#include "properties/reduce/search.h"

namespace attnfuzz {

struct Variation {
  std::vector<Need> needs;
  std::vector<std::string> indifferent;  // names of parts: "dtype"
};

// Of the search's best case. Stops early, saying less, if the time runs out.
Variation vary(Search& s);

}  // namespace attnfuzz
