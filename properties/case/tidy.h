// What a changed case is left with once its leftovers are gone.
//
//   c.problem.batch = 1;
//   tidy(c);             // one key length, no value planted in batch entry 2
#pragma once

#include "properties/case/case.h"

namespace attnfuzz {

// Makes a changed case consistent again: key lengths for each batch entry,
// planted values inside their tensors, no layout for a tensor that is not
// there, no seed for a fill that has none. Changes nothing in a drawn case that
// has no such leftovers.
void tidy(Case& c);

}  // namespace attnfuzz
