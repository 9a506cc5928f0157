// Random products, against their exact sums: whether what the crafted probes
// said of the hardware holds where nothing was crafted.
#pragma once

#include "reference/calibrate/format16.h"
#include "reference/calibrate/mma_probe.h"

namespace attn {

// Runs `count` mma of 128 sums each, in turn: factors of one size; of sizes far
// apart; pairs that cancel; all of one sign; products that fall from term to
// term. Fills in worst, bias, worst_ratio and products.
void compare_random(Format16 format, const attn_env& env, int count, MmaFindings& findings);

}  // namespace attn
