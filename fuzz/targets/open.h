// Opens the kernels of a fuzz target in workers. Ends the process with status 2 and a sentence if one cannot be opened.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fuzz/targets/flags.h"
#include "properties/judge/target.h"

namespace attnfuzz {

// `defaults` in order, those replaced that --kernel names. `name`: of the target, for the message.
std::vector<std::unique_ptr<Target>> open_kernels(const std::string& name, const std::vector<const char*>& defaults,
                                                  const Flags& flags);

}  // namespace attnfuzz
