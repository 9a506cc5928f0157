// The tables of a check, which -v prints.
#pragma once

#include <optional>
#include <string>

#include "fuzz/check/check.h"

namespace attnfuzz {

// "  reference            250    249      0      1    0.412    0.0031", one row a property, below
// a head. A second table has the paths through the kernel (fuzz/check/counts/kernel_path.h).
std::string properties_table(const CheckResult& result);

// Prints what was drawn, its coverage if that was measured, the floors of the draw, the digest and the speed.
// `part` names the part of the cases that was drawn; if it is empty, all were.
std::string check_notes(const CheckResult& result, const Refused& refused,
                        const std::optional<Covered>& covered, const std::string& part);

}  // namespace attnfuzz
