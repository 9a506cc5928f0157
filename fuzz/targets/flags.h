// The options of a fuzz target. libFuzzer's flags have one dash, these have two:
//
//   --build=asan        the build of all kernels (default: coverage)
//   --kernel=./mine.so  replaces the target's kernels, once for each, in order
//   --property=NAME     replaces the target's property
//   --out=DIR           where reproducers go (default: beside libFuzzer's artifacts)
#pragma once

#include <string>
#include <vector>

namespace attnfuzz {

struct Flags {
  std::string build_kind;
  std::vector<std::string> kernels;
  std::string property, out;  // out ends in '/', or is a prefix of file names
};

// Ends the process with status 2 and a sentence about an option that is not understood.
Flags parse_flags(int argc, char** argv);
[[noreturn]] void bad_use(const std::string& why);

}  // namespace attnfuzz
