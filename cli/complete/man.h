// The manual page attnfuzz(1), made from the text of --help.
#pragma once

#include <string>
#include <vector>

#include "cli/complete/table.h"

namespace attnfuzz {

// The page in man(7) macros, for groff and mandoc. `table` comes from command_table(). `version` is
// the text of --version.
std::string man_page(const std::vector<CommandRow>& table, const std::string& version);

}  // namespace attnfuzz
