#include "cli/complete/table.h"

#include <algorithm>
#include <memory>
#include <sstream>

#include "cli/options/help.h"

namespace attnfuzz {
namespace {

constexpr size_t kMostMeaning = 72;  // columns

// "TEXT:{cpu,cuda}" -> cpu, cuda
std::vector<std::string> values_of(const CLI::Option& option) {
  std::vector<std::string> values;
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  if (open == type.npos) return values;
  std::istringstream in(type.substr(open + 1, type.find('}', open) - open - 1));
  for (std::string value; std::getline(in, value, ',');) values.push_back(value);
  return values;
}

OptionRow row_of(const CLI::Option& option, const CLI::Formatter& formatter) {
  OptionRow row;
  std::ranges::copy(shown_names(option), std::back_inserter(row.names));
  row.shown =
      formatter.make_option_name(&option, option.get_positional()) + formatter.make_option_opts(&option);
  row.words = option.get_description();
  row.values = values_of(option);
  row.takes_value = option.get_items_expected_max() > 0;
  return row;
}

CommandRow row_of(const CLI::App& app) {
  CommandRow row = {app.get_name(), app.get_description(), app.get_footer(), {}};
  const auto formatter = std::dynamic_pointer_cast<CLI::Formatter>(app.get_formatter());
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_positional() == positional) row.options.push_back(row_of(*option, *formatter));
    }
  }
  return row;
}

// The first clause, in one line.
std::string meaning_of(const std::string& words) {
  std::string line = words.substr(0, words.find_first_of(";\n"));
  if (line.size() <= kMostMeaning) return line;
  return line.substr(0, line.rfind(' ', kMostMeaning - 3)) + "...";
}

}  // namespace

std::vector<CommandRow> command_table(const CLI::App& app) {
  std::vector<CommandRow> table = {row_of(app)};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    table.push_back(row_of(*command));
  return table;
}

std::vector<Candidate> candidates(const CLI::App& app, const std::vector<std::string>& words,
                                  const std::vector<std::string>& kernels) {
  const std::vector<CommandRow> table = command_table(app);
  std::vector<Candidate> all;
  if (words.empty()) {
    for (size_t n = 1; n < table.size(); ++n) all.push_back({table[n].name, meaning_of(table[n].words)});
    return all;
  }
  const auto command =
      std::find_if(table.begin() + 1, table.end(), [&](const CommandRow& row) { return row.name == words[0]; });
  if (command == table.end()) return {};
  for (const OptionRow& option : command->options) {
    if (!option.takes_value || !std::ranges::count(option.names, words.back())) continue;
    for (const std::string& value : option.values) all.push_back({value, ""});
    return all;
  }
  for (const OptionRow& option : command->options) {
    for (const std::string& name : option.names) all.push_back({name, meaning_of(option.words)});
    if (!option.names.empty()) continue;
    for (const std::string& value : option.values) all.push_back({value, ""});
    if (option.shown.starts_with("kernel")) {
      for (const std::string& kernel : kernels) all.push_back({kernel, "kernel"});
    }
  }
  return all;
}

}  // namespace attnfuzz
