#include "cli/complete/man.h"

#include <sstream>

namespace attnfuzz {
namespace {

// Escapes text for roff, so that no character is read as a request or an escape.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
      out += c;
    }
  }
  return out;
}

std::string upper_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string options_text(const CommandRow& command) {
  std::string text;
  for (const OptionRow& option : command.options)
    text += ".TP\n.B " + roff(option.shown) + "\n" + roff(option.words) + "\n";
  return text;
}

// A footer of --help: headings that end with a colon, and indented lines that stay as they are.
std::string footer_text(const std::string& footer) {
  std::string text;
  std::istringstream lines(footer);
  bool as_it_is = false;
  for (std::string line; std::getline(lines, line);) {
    const bool indented = line.starts_with("  ");
    if (indented != as_it_is) text += indented ? ".nf\n.RS\n" : ".RE\n.fi\n";
    as_it_is = indented;
    if (line.empty()) {
      text += ".PP\n";
    } else {
      text += roff(indented ? line.substr(2) : line) + "\n";
    }
  }
  return text + (as_it_is ? ".RE\n.fi\n" : "");
}

}  // namespace

std::string man_page(const std::vector<CommandRow>& table, const std::string& version) {
  const CommandRow& all = table.front();
  const std::string what = all.words.substr(all.words.find(": ") + 2);
  std::string text = ".TH " + upper_case(all.name) + " 1 \"\" \"" + roff(version) + "\" \"\"\n" + ".SH NAME\n" +
                     roff(all.name) + " \\- " + roff(what.substr(0, what.find_last_not_of('.') + 1)) + "\n" +
                     ".SH SYNOPSIS\n.B " + roff(all.name) + "\n.I SUBCOMMAND\n[OPTIONS]\n" + ".SH OPTIONS\n" +
                     options_text(all) + ".SH SUBCOMMANDS\n";
  for (size_t n = 1; n < table.size(); ++n) {
    const CommandRow& command = table[n];
    text += ".SS " + roff(all.name + " " + command.name) + "\n" + roff(command.words) + ".\n" +
            options_text(command) + ".PP\n" + footer_text(command.footer);
  }
  return text;
}

}  // namespace attnfuzz
