#include "cli/terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace attnfuzz {

bool is_terminal(int fd) {
  const char* term = std::getenv("TERM");
  return term != nullptr && *term != 0 && std::string_view(term) != "dumb" && isatty(fd) != 0;
}

bool takes_colors(int fd) {
  const char* no = std::getenv("NO_COLOR");
  return (no == nullptr || *no == 0) && is_terminal(fd);
}

int columns_of(int fd) {
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return std::clamp<int>(size.ws_col, 40, 200);
}

namespace {

// The number of bytes of a line that fit into `most` columns. Continuation bytes of UTF-8 and colours take no
// column.
size_t bytes_of(const std::string& line, size_t most) {
  size_t column = 0;
  for (size_t at = 0; at < line.size(); ++at) {
    if ((line[at] & 0xc0) == 0x80) continue;
    if (line.compare(at, 2, "\x1b[") == 0) {
      at = std::min(line.find('m', at), line.size());
      continue;
    }
    if (column++ == most) return at;
  }
  return line.size();
}

}  // namespace

std::string wrapped(const std::string& text, int width) {
  const auto most = static_cast<size_t>(width);
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    for (size_t end; (end = bytes_of(line, most)) < line.size();) {
      size_t at = line.rfind(' ', end);
      if (at == line.npos || at <= indent + 2) at = line.find(' ', end);
      if (at == line.npos || at <= indent + 2) break;
      out += line.substr(0, line.find_last_not_of(' ', at) + 1) + "\n";
      line = std::string(indent + 2, ' ') + line.substr(std::min(line.find_first_not_of(' ', at), line.size()));
    }
    out += line + "\n";
  }
  if (!text.ends_with('\n') && !out.empty()) out.pop_back();
  return out;
}

void print(const std::string& text) {
  const bool shown_to_someone = isatty(STDOUT_FILENO) != 0;
  const std::string shown = shown_to_someone ? wrapped(text, columns_of(STDOUT_FILENO)) : text;
  std::fwrite(shown.data(), 1, shown.size(), stdout);
}

}  // namespace attnfuzz
