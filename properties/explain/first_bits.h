// Finds where a case and its peer build first differ: in S, the row maximum, the rescale factor, P or O, in
// the order of computation. Both record the same warp, which has a query whose results differ.
//
//   puts(first_bits(c, target, verdict).c_str());
//     -> "first in P of tile 3 at (b=0,h=1,q=17), key 199: 0x3f3504f3, of the peer build 0x3f3504f4; block (5,0,0),
//         warp 1, lane 7"
//
// Runs the case a few times on either side, for up to ten seconds. If the place cannot be found, the words
// say why: this path through the kernel records no probes, or all recorded values are equal and later ones
// differ.
#pragma once

#include <string>

#include "properties/judge/target/target.h"
#include "properties/judge/verdict.h"

namespace attnfuzz {

// Empty if the verdict is of another kind, or if there is no peer build.
std::string first_bits(const Case& c, Target& target, const Verdict& verdict);

// Appends the result of first_bits(), if it is not empty, to the verdict's message.
void tell_first_bits(const Case& c, Target& target, Verdict& verdict);

}  // namespace attnfuzz
