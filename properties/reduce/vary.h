// Finds out which parts of a minimal case the failure needs.
//
// Each part is varied by itself: a number is raised, a feature is added or removed, values are exchanged.
// If the failure stays, the part is indifferent; if not, it is needed (need.h). The result reports what was
// tried. It is no proof.
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

// Varies the search's best case. If the time runs out, it stops early and says less.
Variation vary(Search& s);

}  // namespace attnfuzz
