// Why a file cannot be a library of this machine's, told from its first bytes.
//
// dlopen calls a library of another architecture "No such file or directory"
// and a text file "invalid ELF header"; a user is helped by neither.
//
//   if (auto why = not_a_library("./libmine.so"); !why.empty()) refuse("./libmine.so " + why);
#pragma once

#include <string>

namespace attnfuzz::worker {

// "is a text file, not a shared library", or nothing. Says nothing of a name
// without '/', which dlopen looks for elsewhere.
std::string not_a_library(const std::string& path);

}  // namespace attnfuzz::worker
