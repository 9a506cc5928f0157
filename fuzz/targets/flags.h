// What a fuzz target is told on its command line. libFuzzer takes flags with one
// dash, these have two:
//
//   --lane=asan         the lane of all kernels (default: coverage)
//   --kernel=./mine.so  instead of the target's kernels, once for each in their order
//   --property=NAME     instead of the target's
//   --out=DIR           where reproducers go (default: beside libFuzzer's artifacts)
#pragma once

#include <string>
#include <vector>

namespace attnfuzz {

struct Flags {
  std::string lane;
  std::vector<std::string> kernels;
  std::string property, out;  // out ends in a '/', or is what file names begin with
};

// Ends the process with status 2 and a sentence on what is not understood.
Flags parse_flags(int argc, char** argv);
[[noreturn]] void bad_use(const std::string& why);

}  // namespace attnfuzz
