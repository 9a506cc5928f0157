// The calibration of the executor's own arithmetic, or of a device's.
#pragma once

#include <string_view>

#include "reference/model/calibration.h"

namespace attnfuzz {

// The table of an attn_arithmetic.
const Calibration& arithmetic_table(int32_t arithmetic);

// The table measured on a GPU of this name ("NVIDIA H200, sm_90"). Without a measured table: that of the GPU's
// arithmetic if is_proven(), else documented().
const Calibration& device_table(std::string_view device);

// The table that judges a case with this arithmetic, in a check with the calibration `given`. If `given` is a
// table of arithmetic_table(), returns the table of the case's arithmetic. Otherwise returns `given`: a user
// chose it, or it limits what an untrusted plan may claim.
const Calibration& table_for(int32_t arithmetic, const Calibration& given);

}  // namespace attnfuzz
