// The command line that runs a subcommand again, made from what the user gave: no option is lost, and each word
// is quoted for a shell.
//
//   again_line(*command, {{"--cases", "1"}, {"--seed", "7"}})
//   // "attnfuzz nsa fa1 './my kernels/nsa.so' --build asan --cases 1 --seed 7"
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace attnfuzz {

// `replaced`: options, by their first long names, and the values that they get, whether the user gave them or
// not. `dropped`: options to leave out.
std::string again_line(const CLI::App& command,
                       const std::vector<std::pair<std::string, std::string>>& replaced,
                       const std::vector<std::string>& dropped = {});

}  // namespace attnfuzz
