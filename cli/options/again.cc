#include "cli/options/again.h"

#include <algorithm>

#include "base/printable.h"
#include "cli/options/help.h"

namespace attnfuzz {
namespace {

std::string words_of(const CLI::Option& option) {
  std::string text;
  if (option.get_positional()) {
    for (const std::string& value : option.results()) text += " " + shell_word(value);
    return text;
  }
  const std::string name = shown_names(option).front();
  const bool flag = option.get_expected_max() == 0;
  for (const std::string& value : option.results()) {
    const bool plain = flag && value == option.get_flag_value(name.substr(2), "");
    text += " " + name + (plain ? "" : (flag ? "=" : " ") + shell_word(value));
  }
  return text;
}

}  // namespace

std::string again_line(const CLI::App& command,
                       const std::vector<std::pair<std::string, std::string>>& replaced,
                       const std::vector<std::string>& dropped) {
  std::string positionals, options;
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string> names = shown_names(*option);
    const auto is = [&](const std::string& name) { return !names.empty() && names.front() == name; };
    if (option->count() == 0 || std::ranges::any_of(dropped, is)) continue;
    if (std::ranges::any_of(replaced, [&](const auto& one) { return is(one.first); })) continue;
    (option->get_positional() ? positionals : options) += words_of(*option);
  }
  for (const auto& [name, value] : replaced) options += " " + name + " " + shell_word(value);
  return "attnfuzz " + command.get_name() + positionals + options;
}

}  // namespace attnfuzz
