// attnfuzz completion: what a shell may put in at the next TAB. The script asks the
// command itself each time, so that it is never older than the command.
#include <cstdio>

#include "cli/command.h"
#include "cli/help.h"
#include "fuzz/host/kernel_registry.h"

namespace attnfuzz {
namespace {

constexpr const char* kBash = R"(_attnfuzz() {
  local words
  words=$("${COMP_WORDS[0]}" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}")
}
complete -o default -F _attnfuzz attnfuzz
)";

struct CompletionArguments {
  std::string what;
  std::vector<std::string> words;
};

Exit run_completion(const CLI::App& app, const CompletionArguments& arguments) {
  if (arguments.what == "bash") {
    std::printf("%s", kBash);
    return kHeld;
  }
  std::vector<std::string> kernels;
  for (const KernelLibrary& kernel : our_kernels()) kernels.push_back(kernel.name);
  for (const std::string& word : completions(app, arguments.words, kernels)) std::printf("%s\n", word.c_str());
  return kHeld;
}

}  // namespace

void add_completion(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("completion", "Prints a script that completes words for bash");
  const auto arguments = std::make_shared<CompletionArguments>();
  command
      ->add_option("what", arguments->what,
                   "bash: the script; words: what may come after WORDS, for the script")
      ->required()
      ->check(one_of("shell", {"bash", "words"}));
  command->add_option("words", arguments->words, "of a command line, behind --");
  add_footer(*command, "source <(attnfuzz completion bash)", {"it was printed", "", kBadUseStatus});
  command->callback(
      [&app, &action, arguments] { action = [&app, arguments] { return run_completion(app, *arguments); }; });
}

}  // namespace attnfuzz
