// Opens the kernels of a fuzz target in workers. Ends the process with status 2 and a sentence if one cannot be
// opened.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fuzz/targets/flags.h"
#include "properties/judge/target/target.h"

namespace attnfuzz {

// Opens the kernels in `defaults`, in order; each --kernel replaces the next of them. `name`: the target's
// name, for the message.
std::vector<std::unique_ptr<Target>> open_kernels(const std::string& name,
                                                  const std::vector<const char*>& defaults, const Flags& flags);

}  // namespace attnfuzz
