#include "cli/options/help.h"

#include <algorithm>
#include <memory>
#include <sstream>

#include "base/printable.h"
#include "cli/terminal/terminal.h"

namespace attnfuzz {
namespace {

constexpr size_t kNames = 28, kWidth = 80;  // columns

class Formatter : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    if (positional || option->get_lnames().size() < 2)
      return CLI::Formatter::make_option_name(option, positional);
    std::string names;
    for (const std::string& name : option->get_snames()) names += "-" + name + ",";
    return names + shown_names(*option).front();
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string type = CLI::Formatter::make_option_opts(option);
    // The description says more than a long list of names.
    const size_t open = type.find(":{"), close = type.find('}', open);
    if (close != type.npos && close - open > 20) type.erase(open, close - open + 1);
    return type;
  }
  std::string make_option(const CLI::Option* option, bool positional) const override {
    return beside(make_option_name(option, positional) + make_option_opts(option), make_option_desc(option),
                  kNames);
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return beside(command->get_name(), command->get_description());
  }
  std::string make_description(const CLI::App* app) const override {
    return wrapped(CLI::Formatter::make_description(app));
  }
  std::string make_footer(const CLI::App* app) const override {
    return wrapped(CLI::Formatter::make_footer(app));
  }
};

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : shown_names(*option)) names.push_back(name);
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

}  // namespace

std::vector<std::string> shown_names(const CLI::Option& option) {
  if (option.get_lnames().empty()) return {};
  return {"--" + option.get_lnames().front()};
}

std::string beside(const std::string& name, const std::string& words, size_t column) {
  const std::string margin(column, ' ');
  std::string text = "  " + name;
  text += text.size() < column ? margin.substr(text.size()) : "\n" + margin;
  std::istringstream lines(wrapped(words, static_cast<int>(kWidth - column)));
  std::string line;
  for (bool first = true; std::getline(lines, line); first = false) {
    if (!first) text += "\n" + margin;
    text += line.substr(std::min(line.find_first_not_of(' '), line.size()));
  }
  return text + "\n";
}

void set_formatter(CLI::App& app) { app.formatter(std::make_shared<Formatter>()); }

void add_footer(CLI::App& command, const std::string& example, const std::vector<std::string>& statuses,
                const std::string& more) {
  std::string text = "Example:\n  " + example + "\n\nExit status:\n";
  for (size_t n = 0; n < statuses.size(); ++n) {
    if (!statuses[n].empty()) text += "  " + std::to_string(n) + "  " + statuses[n] + "\n";
  }
  command.footer(text + (more.empty() ? "" : "\n" + more));
}

CLI::Validator one_of(const std::string& what, const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ",") + name;
  return {[=](std::string& given) -> std::string {
            if (std::ranges::find(names, given) != names.end()) return "";
            const std::string hint = suggestion(given, names);
            return "there is no " + what + " '" + printable(given, 60) + "'" +
                   (hint.empty() ? "; there are: " + list : hint);
          },
          "{" + list + "}"};
}

std::string meant(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  std::string text;
  for (const std::string& given : app.remaining(true)) {
    const std::string word = given.substr(0, given.find('='));
    const bool option = word.starts_with('-');
    if (!option && at != &app) continue;
    const std::string hint = suggestion(word, option ? option_names(*at) : command_names(app));
    if (!hint.empty()) text += "'" + printable(word, 60) + "'" + hint + "\n";
    if (at == &app) break;  // the words after an unknown subcommand belong to it
  }
  return text;
}

}  // namespace attnfuzz
