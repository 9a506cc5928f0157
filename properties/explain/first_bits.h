// Where a case and its twin first part: of S, the row maximum, the rescale factor, P and O, in the order in
// which the kernel computes them, by what both record of a warp that has the query where the results differ.
//
//   puts(first_bits(c, target, verdict).c_str());
//     -> "first in P of tile 3 at (b=0,h=1,q=17), key 199: 0x3f3504f3, of the twin 0x3f3504f4; block (5,0,0),
//         warp 1, lane 7"
//
// Runs the case a few times on either side, for up to ten seconds. Where it cannot be told the words say why:
// this way through the kernel records no probes, or all of what it records is the same and what comes after is
// not.
#pragma once

#include <string>

#include "properties/judge/target.h"
#include "properties/judge/verdict.h"

namespace attnfuzz {

// Empty: the verdict is not of that kind, or there is no twin.
std::string first_bits(const Case& c, Target& target, const Verdict& verdict);

// Adds that to the message of such a verdict.
void tell_first_bits(const Case& c, Target& target, Verdict& verdict);

}  // namespace attnfuzz
