// Gives a drawn case lists of blocks. The operations selected and selected_backward do this.
#pragma once

#include <cstdint>

#include "properties/case/case.h"

namespace attnfuzz::operations {

// Turns a drawn case into one over listed blocks: draws the lists, removes what such a problem does not have,
// and sets `operation`, its bit of attn_problem.features.
void give_lists(Case& c, uint64_t operation, uint64_t kernel_features);

}  // namespace attnfuzz::operations
