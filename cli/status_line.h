// What goes on, on standard error: one line that is overwritten on a terminal; elsewhere,
// in a log or under a scheduler, a line of its own every 30 s, so that silence means
// that something is wrong.
//
//   StatusLine line;
//   line.show("12:05, 8700 cases");   // as often as one likes
//   line.clear();                     // before anything else is printed
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "cli/terminal.h"

namespace attnfuzz {

class StatusLine {
 public:
  explicit StatusLine(bool terminal = is_terminal(STDERR_FILENO), double every = 30, std::FILE* to = stderr)
      : terminal_(terminal), every_(every), to_(to) {}
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  void show(const std::string& text) {
    if (terminal_) {
      // What is broken into two lines cannot be written over.
      const auto room = static_cast<size_t>(columns_of(fileno(to_)) - 1);
      std::fprintf(to_, "\r\033[K%s", text.substr(0, room).c_str());
    } else {
      const auto now = std::chrono::steady_clock::now();
      if (std::chrono::duration<double>(now - told_).count() < every_) return;
      told_ = now;
      std::fprintf(to_, "%s\n", text.c_str());
    }
    std::fflush(to_);
  }
  void clear() const {
    if (terminal_) std::fprintf(to_, "\r\033[K");
  }

 private:
  const bool terminal_;
  const double every_;  // seconds, also before the first
  std::FILE* to_;
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

}  // namespace attnfuzz
