// Which machine a session runs on: for whoever reads its findings elsewhere.
#pragma once

#include "fuzz/campaign/store/archive.h"

namespace attnfuzz {

// What cannot be found out is left empty.
Machine this_machine();
// GPUs that this process may use: entries of CUDA_VISIBLE_DEVICES, as a job that is
// to use one of them sets it. Empty where there is none.
std::vector<std::string> visible_gpus();

}  // namespace attnfuzz
