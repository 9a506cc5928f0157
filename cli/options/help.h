// The command's help: --help in 80 columns, and suggestions for mistyped words. Both are made from
// CLI11's tree of subcommands and options, like shell completion and the manual page
// (complete/table.h).
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace attnfuzz {

// Sets the formatter of the app. Subcommands that are added later inherit it.
void set_formatter(CLI::App& app);

// The text at the end of a subcommand's --help. `statuses`: the words for kPassed, kFound and kBadUse; an empty
// one is not printed.
inline constexpr const char* kBadUseStatus = "bad use or a bad file";
inline const std::vector<std::string> kJudgedStatuses = {"it passed", "it failed", kBadUseStatus};
inline const std::vector<std::string> kCampaignExitStatuses = {
    "nothing was found",
    "a new finding, even if it came once; a failure that waits to be reduced; a seeded bug that was missed",
    "bad use; a part of the folder is missing or cannot be read; the disk was full; next to nothing was judged "
    "of a kernel; a merged campaign did not end; or failures were never looked at"};
void add_footer(CLI::App& command, const std::string& example, const std::vector<std::string>& statuses,
                const std::string& more = "");

// The names of an option that help and completion show: the first long one. Further long names are names that
// the option once had; they still work.
std::vector<std::string> shown_names(const CLI::Option& option);

// "  NAME            words", in 80 columns, as `list` and --help print it.
std::string beside(const std::string& name, const std::string& words, size_t column = 19);

// Accepts one of `names`. Otherwise it reports "there is no WHAT 'assan': did you mean 'asan'?".
// Completion offers the names.
CLI::Validator one_of(const std::string& what, const std::vector<std::string>& names);

// Suggestions for a command line that could not be parsed: "'chekc': did you mean 'check'?", line by line.
std::string meant(const CLI::App& app);

}  // namespace attnfuzz
