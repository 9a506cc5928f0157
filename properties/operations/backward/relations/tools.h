// Tools of the backward pass's relations, beside those of the forward pass.
#pragma once

#include "properties/case/shrink_toggles.h"
#include "properties/judge/judge.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation backward;
}
