// The table of whose arithmetic the executor computes in: its own, or a device's.
#pragma once

#include "reference/model/calibration.h"

namespace attnfuzz {

// Of an attn_arithmetic.
const Calibration& arithmetic_table(int32_t arithmetic);

// By what a case in some arithmetic is judged where a check has `given`: that arithmetic's table if `given` is
// one of these tables, and else `given`, which a user chose, or which limits what a stranger's plan may claim.
const Calibration& table_for(int32_t arithmetic, const Calibration& given);

}  // namespace attnfuzz
