// Scripts that complete words of the command in a shell. Each asks the command itself at every TAB, so that it
// is never older than the command: `attnfuzz completion words -- WORDS` prints a line for each word that may
// follow, the word, a tab, and what it means.
#pragma once

#include <string>
#include <vector>

namespace attnfuzz {

struct Shell {
  const char* name;
  const char* script;
  const char* use;  // how it is loaded, as the help says it
};
const std::vector<Shell>& shells();

}  // namespace attnfuzz
