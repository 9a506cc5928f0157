#include "base/identity/command.h"

#include <stdexcept>

#include "base/subprocess.h"

namespace attnfuzz {

std::vector<std::string> split_command(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == '\'') {
      if (c == '\'') {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\\' && i + 1 < line.size()) {
      // In double quotes a backslash is taken away only from what it protects there.
      if (quote == '"' && std::string_view("\"\\$`").find(line[i + 1]) == std::string_view::npos) word += c;
      word += line[++i];
      in_word = true;
    } else if (quote == '"') {
      if (c == '"') {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (in_word) words.push_back(std::move(word));
      word.clear();
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (in_word) words.push_back(std::move(word));
  return words;
}

std::string output_of(const std::vector<std::string>& arguments, const std::string& directory) {
  std::string shown;
  for (const std::string& a : arguments) shown += (shown.empty() ? "" : " ") + a;
  const Ran ran = run_program(arguments, {.take_output = true, .directory = directory});
  const int status = ran.status;
  if (status != 0) {
    throw std::runtime_error("failed (" + (status < 0 ? "it cannot be started" : describe_status(status)) +
                             "): " + shown);
  }
  return ran.output;
}

std::vector<std::string> prerequisites(std::string_view rule) {
  // The target ends at the first colon that white space follows.
  size_t i = 0;
  while (i + 1 < rule.size() && !(rule[i] == ':' && std::string_view(" \t\n\\").find(rule[i + 1]) != rule.npos))
    ++i;
  std::vector<std::string> names;
  std::string name;
  auto flush = [&] {
    if (!name.empty()) names.push_back(std::move(name));
    name.clear();
  };
  for (++i; i < rule.size(); ++i) {
    const char c = rule[i];
    const char next = i + 1 < rule.size() ? rule[i + 1] : '\0';
    if (c == '\\' && next == '\n') {
      flush();
      ++i;
    } else if (c == '\\' && (next == ' ' || next == '#' || next == '\\')) {
      name += next;
      ++i;
    } else if (c == '$' && next == '$') {
      name += '$';
      ++i;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      flush();
    } else {
      name += c;
    }
  }
  flush();
  return names;
}

}  // namespace attnfuzz
