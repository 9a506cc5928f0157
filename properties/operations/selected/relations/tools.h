// Tools for relations of listed blocks, in addition to those of the forward pass.
#pragma once

#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/selection.h"
#include "properties/judge/judge.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation selected;
extern const Operation selected_backward;
}
