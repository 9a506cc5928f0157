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

// A clang of 15 or later, or else a g++ of 12 or later: of $CXX if that is set, else of the PATH. A `build`
// that is compiled otherwise than plain needs a clang. Throws UserError that says what to install.
Compiler compiler_of_this_machine(const std::string& build_kind);

// "g++ 12 (/usr/bin/g++)".
std::string describe(const Compiler& compiler);

// Removes a build folder that another compiler has built in: CMake cannot change the compiler of one.
void expect_build_by(const Compiler& compiler, const std::filesystem::path& build);

}  // namespace attnfuzz
