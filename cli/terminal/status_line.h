// Shows progress on standard error. On a terminal it is one line that is overwritten; elsewhere, in a log or
// under a scheduler, a new line every 30 s, so that silence means that something is wrong.
//
//   StatusLine line;
//   line.show("12:05, 8700 cases");   // as often as one likes
//   line.clear();                     // before anything else is printed
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include "cli/terminal/terminal.h"

namespace attnfuzz {

// "fa1: 300 of 1000 cases (30 %), 5 s, 60 cases/s, 12 s left". If time limits the check, `of` is 0
// and `most` is the limit in seconds.
inline std::string progress_line(const std::string& kernel, uint64_t done, uint64_t of, double seconds,
                                 double most) {
  const double rate = static_cast<double>(done) / std::max(seconds, 1e-9);
  const double share =
      of > 0 ? static_cast<double>(done) / static_cast<double>(of) : seconds / std::max(most, 1e-9);
  const double left =
      of > 0 ? static_cast<double>(of - std::min(done, of)) / rate : std::max(most - seconds, 0.0);
  std::string text = kernel + ": " + std::to_string(done) + (of > 0 ? " of " + std::to_string(of) : "") +
                     " cases (" + std::to_string(std::lround(100 * std::min(share, 1.0))) + " %), " +
                     std::to_string(std::lround(seconds)) + " s, " + std::to_string(std::lround(rate)) +
                     " cases/s";
  return done > 0 ? text + ", " + std::to_string(std::lround(left)) + " s left" : text;
}

class StatusLine {
 public:
  explicit StatusLine(bool terminal = is_terminal(STDERR_FILENO), double every = 30, std::FILE* to = stderr)
      : terminal_(terminal), every_(every), to_(to) {}
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  void show(const std::string& text) {
    if (terminal_) {
      // A line that wraps cannot be written over.
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
  const double every_;  // seconds between two lines, and before the first
  std::FILE* to_;
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

}  // namespace attnfuzz
