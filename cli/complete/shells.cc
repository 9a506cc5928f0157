#include "cli/complete/shells.h"

namespace attnfuzz {
namespace {

constexpr const char* kBash = R"(_attnfuzz() {
  local words
  words=$("${COMP_WORDS[0]}" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null | cut -f1)
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}")
}
complete -o default -F _attnfuzz attnfuzz
)";

// The first line makes it usable from $fpath. The last line makes it usable with `source`.
constexpr const char* kZsh = R"(#compdef attnfuzz
_attnfuzz() {
  local line
  local -a found
  for line in "${(@f)$("${words[1]}" completion words -- "${(@)words[2,CURRENT-1]}" 2>/dev/null)}"; do
    [[ -n $line ]] && found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  _describe -t words 'attnfuzz' found || _files
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _attnfuzz "$@"; else compdef _attnfuzz attnfuzz; fi
)";

constexpr const char* kFish = R"(function __attnfuzz_words
    set -l given (commandline -opc)
    $given[1] completion words -- $given[2..-1] 2>/dev/null
end
complete -c attnfuzz -a '(__attnfuzz_words)'
)";

}  // namespace

const std::vector<Shell>& shells() {
  static const std::vector<Shell> all = {{"bash", kBash, "source <(attnfuzz completion bash)"},
                                         {"zsh", kZsh, "source <(attnfuzz completion zsh)"},
                                         {"fish", kFish, "attnfuzz completion fish | source"}};
  return all;
}

}  // namespace attnfuzz
