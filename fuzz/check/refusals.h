// What a kernel does not do, learned from its plan().
//
// Few kernels do everything. Each feature is asked for alone, on a small problem;
// what is refused is drawn in a few cases only, and properties that are about
// nothing else are left out. Both are said where results are printed.
#pragma once

#include <string>

#include "properties/draw/generator.h"
#include "properties/judge/property.h"

namespace attnfuzz {

// Nothing, if the small problem itself is refused.
Refused ask_for_refusals(Target& target);

// Whether there is something to judge by the property.
bool speaks_of(const Property& property, const Refused& refused);

// "bias, softcap, head dimensions above 64"; empty if nothing is refused.
std::string in_words(const Refused& refused);

}  // namespace attnfuzz
