// Compiler commands as build systems record them, and the dependencies that compilers print.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attnfuzz {

// Splits a command line as a shell would: quotes and backslashes, no expansion.
std::vector<std::string> split_command(std::string_view line);

// Standard output of a command run in `directory`. Throws std::runtime_error
// with the command and its exit status if it fails.
std::string output_of(const std::vector<std::string>& arguments, const std::string& directory);

// The prerequisites that a make rule "target: a b \ c" names.
std::vector<std::string> prerequisites(std::string_view rule);

}  // namespace attnfuzz
