// The manual page attnfuzz(1), made from the text of --help.
#pragma once

#include <string>
#include <vector>

#include "cli/complete/table.h"

namespace attnfuzz {

// In man(7)'s macros, for groff and mandoc. `table` as command_table() gives it, `version` as --version prints
// it.
std::string man_page(const std::vector<CommandRow>& table, const std::string& version);

}  // namespace attnfuzz
