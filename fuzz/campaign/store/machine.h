// The machine of a session, for people who read its findings elsewhere.
#pragma once

#include "fuzz/campaign/store/archive.h"

namespace attnfuzz {

// A fact that cannot be found out is left empty.
Machine this_machine();
// The GPUs that this process may use, as entries of CUDA_VISIBLE_DEVICES. Empty if there are none.
std::vector<std::string> visible_gpus();

}  // namespace attnfuzz
