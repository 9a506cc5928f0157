// All subcommands and options as one table, made from CLI11's tree. Shell completion and the manual
// page use it.
//
//   for (const CommandRow& command : command_table(app)) ...
//   candidates(app, {"check", "fa1", "--build"}, kernels)     // plain, schedules, asan, ...
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace attnfuzz {

struct OptionRow {
  std::vector<std::string> names;   // "--cases"; empty for a positional
  std::string shown;                // "--cases UINT=1000", as --help has it
  std::string words;                // its description
  std::vector<std::string> values;  // its possible values, if they are a list
  bool takes_value = false;
};

struct CommandRow {
  std::string name, words, footer;
  std::vector<OptionRow> options;  // positionals first
};

// A row for the command itself, then one for each subcommand, in the order of --help.
std::vector<CommandRow> command_table(const CLI::App& app);

// A word that may come next, and what it means in one line; the meaning may be empty.
struct Candidate {
  std::string word, meaning;
};
// The words that may follow `words`, of which the first is a subcommand. `kernels` are names of
// kernels. The answer is empty if a file or any other text may follow.
std::vector<Candidate> candidates(const CLI::App& app, const std::vector<std::string>& words,
                                  const std::vector<std::string>& kernels);

}  // namespace attnfuzz
