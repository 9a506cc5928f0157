// Compares random products with their exact sums, to confirm what the crafted probes found.
#pragma once

#include "reference/calibrate/format16.h"
#include "reference/calibrate/mma_probe.h"

namespace attn {

// Runs `count` mma of 128 sums each, in turn with factors of one size, of sizes far apart, pairs that
// cancel, all of one sign, and products that decrease from term to term. Sets worst, bias, worst_ratio and
// products.
void compare_random(Format16 format, const attn_env& env, int count, MmaFindings& findings);

}  // namespace attn
