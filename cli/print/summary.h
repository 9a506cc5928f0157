// The default output of a check, for each kernel:
//
//   fa1  cpu plain: 10,000 cases, 26 properties, 0 failed, 271 not judged, 97 s, largest error 0.998 of its bound
//     left out: 31 cases that it refused; the builds asan, msan and tsan (--build)
//     assumed, as plan() leaves it open: ...
#pragma once

#include <string>

#include "cli/print/checked.h"

namespace attnfuzz {

// "10,000"
std::string counted(uint64_t n);

// `properties`: the number of properties that judged. `seed`: printed unless it is 1.
std::string summary_text(const Checked& checked, size_t properties, uint64_t seed, bool color);

}  // namespace attnfuzz
