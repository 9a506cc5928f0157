// The calibration of the executor's own arithmetic, or of a device's.
#pragma once

#include <string_view>

#include "reference/model/calibration.h"

namespace attnfuzz {

// The table of an attn_arithmetic.
const Calibration& arithmetic_table(int32_t arithmetic);

// The table measured on a GPU of this name ("NVIDIA H200, sm_90"). For another one whose arithmetic is proven it is the
// table of that arithmetic, else the documented one.
const Calibration& device_table(std::string_view device);

// The table that judges a case in some arithmetic, in a check with the calibration `given`. If `given` is
// one of these tables, it is the table of the case's arithmetic. Otherwise it is `given`, which a user
// chose, or which limits what an untrusted plan may claim.
const Calibration& table_for(int32_t arithmetic, const Calibration& given);

}  // namespace attnfuzz
