// attnfuzz-identity: writes the build identity of one kernel library as a C file.
//
//   attnfuzz-identity ROOT BUILD COMMANDS OBJECTS OUTPUT DEPFILE
//
// IdentityOptions explains the first four arguments; colons separate the folders in OBJECTS. OUTPUT is the C
// file. It is left untouched if it would not change. DEPFILE is a dependency file for make or ninja. The CMake
// function attnfuzz_add_kernel runs this tool.
#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>

#include "base/identity/identity.h"

namespace {

bool put(const std::string& path, const std::string& text) {
  if (attnfuzz::file_bytes(path) == text) return true;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  return static_cast<bool>(out.flush());
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ':');) parts.push_back(part);
  return parts;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "usage: attnfuzz-identity ROOT BUILD COMMANDS OBJECTS OUTPUT DEPFILE\n");
    return 2;
  }
  try {
    const attnfuzz::Identity id = attnfuzz::identify(
        {.root = argv[1], .build = argv[2], .commands = argv[3], .objects = split(argv[4]), .skip = argv[5]});
    if (!put(argv[5], attnfuzz::as_c(id)) || !put(argv[6], attnfuzz::as_depfile(id, argv[5]))) {
      std::fprintf(stderr, "attnfuzz-identity: cannot write %s or %s\n", argv[5], argv[6]);
      return 1;
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "attnfuzz-identity: %s\n", e.what());
    return 1;
  }
  return 0;
}
