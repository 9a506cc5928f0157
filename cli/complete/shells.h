// Scripts that complete words of the command in a shell. At every TAB a script runs `attnfuzz
// completion words -- WORDS`, so it is never older than the command. The command prints a line for
// each word that may follow: the word, a tab, and its meaning.
#pragma once

#include <vector>

namespace attnfuzz {

struct Shell {
  const char* name;
  const char* script;
  const char* use;  // the help text that says how to load it
};
const std::vector<Shell>& shells();

}  // namespace attnfuzz
