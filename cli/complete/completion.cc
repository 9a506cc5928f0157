// attnfuzz completion prints scripts that complete words in a shell, and attnfuzz man prints the manual page.
// Both come from the table of subcommands and options.

#include "cli/complete/man.h"
#include "cli/complete/shells.h"
#include "cli/complete/table.h"
#include "cli/options/command.h"
#include "cli/options/help.h"
#include "cli/terminal/results_apart.h"
#include "cli/terminal/terminal.h"
#include "fuzz/host/kernel_registry.h"

namespace attnfuzz {
namespace {

struct CompletionArguments {
  std::string what, out = "-";
  std::vector<std::string> words;
};

Exit run_completion(const CLI::App& app, const CompletionArguments& arguments) {
  for (const Shell& shell : shells()) {
    if (arguments.what != shell.name) continue;
    write_to(arguments.out, shell.script);
    return kPassed;
  }
  std::vector<std::string> kernels;  // each once, whatever back ends it has
  for (const KernelLibrary& kernel : our_kernels()) {
    if (kernels.empty() || kernels.back() != kernel.name) kernels.push_back(kernel.name);
  }
  for (const Candidate& next : candidates(app, arguments.words, kernels))
    emit("{}\t{}\n", next.word, next.meaning);
  return kPassed;
}

void add_out_option(CLI::App& command, std::string& out) {
  command.add_option("-o,--out", out, "file to write, - for standard output")->capture_default_str();
}

}  // namespace

void add_completion(CLI::App& app, Action& action) {
  std::vector<std::string> names;
  std::string loaded = "How to load the script:\n";
  for (const Shell& shell : shells()) {
    names.emplace_back(shell.name);
    loaded += beside(shell.name, shell.use, 8);
  }
  names.emplace_back("words");
  CLI::App* command =
      app.add_subcommand("completion", "Prints a script that completes words for bash, zsh or fish");
  const auto arguments = std::make_shared<CompletionArguments>();
  command
      ->add_option("what", arguments->what,
                   "bash, zsh, fish: the script; words: what may come after WORDS (for use by the scripts)")
      ->required()
      ->check(one_of("shell", names));
  command->add_option("words", arguments->words, "the words of a command line, after --");
  add_out_option(*command, arguments->out);
  add_footer(*command, shells().front().use, {"it was printed", "", kBadUseStatus}, loaded);
  command->callback(
      [&app, &action, arguments] { action = [&app, arguments] { return run_completion(app, *arguments); }; });
}

void add_man(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("man", "Prints the manual page, which has the text of every --help");
  const auto out = std::make_shared<std::string>("-");
  add_out_option(*command, *out);
  add_footer(*command, "attnfuzz man | man -l -", {"it was printed", "", kBadUseStatus});
  command->callback([&app, &action, out] {
    action = [&app, out] {
      write_to(*out, man_page(command_table(app), ATTNFUZZ_VERSION));
      return kPassed;
    };
  });
}

}  // namespace attnfuzz
