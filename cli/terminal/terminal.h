// Output for people: 80 columns, or those of the terminal; colours and lines that are written over only if they
// are wanted.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace attnfuzz {

// A terminal that a line can be written over on: not where TERM is "dumb" or not set.
bool is_terminal(int fd);

// The same, unless NO_COLOR is set and not empty (https://no-color.org).
bool takes_colors(int fd);

// 80 where nothing says otherwise.
int columns_of(int fd);

// Lines longer than `width` are broken between words; what follows is indented as the line was, and by
// two more. A word stays whole. Colours, and all but the first byte of a character, take no column.
std::string wrapped(const std::string& text, int width = 80);

// To standard output: wrapped on a terminal of any kind, line by line as it is elsewhere, for whoever searches
// a log.
void print(const std::string& text);

// To standard output as it is, for tables and machines: emit("{} cases in {:.0f} s\n", n, seconds).
template <typename... Parts>
void emit(fmt::format_string<Parts...> format, Parts&&... parts) {
  const std::string text = fmt::format(format, std::forward<Parts>(parts)...);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace attnfuzz
