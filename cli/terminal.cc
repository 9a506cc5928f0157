#include "cli/terminal.h"

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

std::string wrapped(const std::string& text, int width) {
  const auto most = static_cast<size_t>(width);
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    while (line.size() > most) {
      size_t at = line.rfind(' ', most);
      if (at == line.npos || at <= indent + 2) at = line.find(' ', most);
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
  const std::string shown = is_terminal(STDOUT_FILENO) ? wrapped(text, columns_of(STDOUT_FILENO)) : text;
  std::fwrite(shown.data(), 1, shown.size(), stdout);
}

}  // namespace attnfuzz
