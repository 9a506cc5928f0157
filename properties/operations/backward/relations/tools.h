// What the relations of the backward pass share beside the forward pass's tools.
#pragma once

#include "properties/case/shrink_toggles.h"
#include "properties/judge/judge.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation backward;
}
