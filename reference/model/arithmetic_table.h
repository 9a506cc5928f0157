// The table of whose arithmetic the executor computes in: its own, or a device's.
#pragma once

#include "reference/model/calibration.h"

namespace attnfuzz {

// Of an attn_arithmetic.
const Calibration& arithmetic_table(int32_t arithmetic);

}  // namespace attnfuzz
