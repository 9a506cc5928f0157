// The C++ compiler that builds a source (entry.h), and the folder that it builds in.
#pragma once

#include <filesystem>
#include <string>

namespace attnfuzz {

struct Compiler {
  std::string path;
  bool is_clang = false;
  std::string version = {};  // the major one
};

// Finds a clang of 15 or later, or else a g++ of 12 or later: $CXX if it is set, else from the
// PATH. A build with its own compiler flags needs clang. Throws UserError that says what to
// install.
Compiler compiler_of_this_machine(const std::string& build_kind);

// "g++ 12 (/usr/bin/g++)".
std::string describe(const Compiler& compiler);

// Removes the build folder if it was configured with another compiler, because CMake cannot change
// that.
void expect_build_by(const Compiler& compiler, const std::filesystem::path& build);

}  // namespace attnfuzz
