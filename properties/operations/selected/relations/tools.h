// Tools of relations of listed blocks, beside those of the forward pass.
#pragma once

#include "properties/case/selection.h"
#include "properties/case/shrink_toggles.h"
#include "properties/judge/judge.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation selected;
}
