// Tells from the first bytes of a file why it cannot be a library for this machine.
//
// dlopen calls a library of another architecture "No such file or directory" and a text file
// "invalid ELF header". Neither message helps a user.
//
//   if (auto why = not_a_library("./libmine.so"); !why.empty()) refuse("./libmine.so " + why);
#pragma once

#include <string>

namespace attnfuzz::worker {

// "is a text file, not a shared library"; empty if the file may be a library. Also empty for a name
// without '/', which dlopen looks up in other folders.
std::string not_a_library(const std::string& path);

}  // namespace attnfuzz::worker
