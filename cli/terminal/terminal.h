// Output for people, as wide as the terminal, or 80 columns. Colours and overwritten lines are used only on a
// terminal that takes them.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace attnfuzz {

// True for a terminal on which a line can be overwritten. False if TERM is "dumb" or not set.
bool is_terminal(int fd);

// The same, unless NO_COLOR is set and not empty (https://no-color.org).
bool takes_colors(int fd);

// The number of columns; 80 if it is not known.
int columns_of(int fd);

// Breaks lines longer than `width` between words. A continuation is indented by two more columns
// than its line. A word is never broken. Colours, and all but the first byte of a character, take
// no column.
std::string wrapped(const std::string& text, int width = 80);

// Prints to standard output. Text is wrapped on a terminal of any kind. Elsewhere lines stay whole,
// which makes a log searchable.
void print(const std::string& text);

// Prints to standard output unchanged, for tables and machines: emit("{} cases in {:.0f} s\n", n,
// seconds).
template <typename... Parts>
void emit(fmt::format_string<Parts...> format, Parts&&... parts) {
  const std::string text = fmt::format(format, std::forward<Parts>(parts)...);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace attnfuzz
