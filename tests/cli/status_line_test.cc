// Tests the status line, which overwrites itself on a terminal and prints a line now and then elsewhere, and
// is_terminal().
#include "cli/terminal/status_line.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>
#include <string>

namespace attnfuzz {
namespace {

std::string shown(bool terminal, double every) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* to = open_memstream(&text, &size);
  {
    StatusLine line(terminal, every, to);
    line.show("1 case");
    line.show("2 cases");
  }
  std::fclose(to);
  std::string result(text, size);
  std::free(text);
  return result;
}

TEST(StatusLine, IsOverwrittenOnATerminal) {
  EXPECT_EQ(shown(true, 30), "\r\033[K1 case\r\033[K2 cases\r\033[K");
}

TEST(StatusLine, IsLinesElsewhere) { EXPECT_EQ(shown(false, 0), "1 case\n2 cases\n"); }

TEST(StatusLine, WaitsForItsIntervalElsewhere) {
  EXPECT_EQ(shown(false, std::numeric_limits<double>::infinity()), "");
}

TEST(StatusLine, NamesTheKernelPercentRateAndTimeLeft) {
  EXPECT_EQ(progress_line("fa1", 300, 1000, 5, 0), "fa1: 300 of 1000 cases (30 %), 5 s, 60 cases/s, 12 s left");
  EXPECT_EQ(progress_line("fa1", 300, 0, 15, 60), "fa1: 300 cases (25 %), 15 s, 20 cases/s, 45 s left");
  EXPECT_EQ(progress_line("fa1", 0, 1000, 2, 0), "fa1: 0 of 1000 cases (0 %), 2 s, 0 cases/s");
}

TEST(Terminal, IsNoDumbOneAndTakesColorsUnlessForbidden) {
  int host = -1, terminal = -1;
  winsize size = {.ws_row = 10, .ws_col = 50, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(openpty(&host, &terminal, nullptr, nullptr, &size), 0);
  unsetenv("NO_COLOR");
  setenv("TERM", "xterm", 1);
  EXPECT_TRUE(is_terminal(terminal) && takes_colors(terminal));
  EXPECT_EQ(columns_of(terminal), 50);
  setenv("NO_COLOR", "1", 1);
  EXPECT_TRUE(is_terminal(terminal) && !takes_colors(terminal));
  unsetenv("NO_COLOR");
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(is_terminal(terminal) || takes_colors(terminal));
  close(terminal);
  close(host);
}

TEST(Wrapped, BreaksLinesBetweenWords) {
  EXPECT_EQ(wrapped("  one two three\nfour\n", 10), "  one two\n    three\nfour\n");
  EXPECT_EQ(wrapped("anywordthatistoolong stays", 10), "anywordthatistoolong\n  stays");
  EXPECT_EQ(wrapped("fits", 10), "fits");
  EXPECT_EQ(wrapped("0 \u2588\u2588\u2588\u2593\u2593\u2593\u00b7\u00b7", 10),
            "0 \u2588\u2588\u2588\u2593\u2593\u2593\u00b7\u00b7")
      << "as wide as its characters";
  EXPECT_EQ(wrapped("\x1b[32mone\x1b[0m two thr", 11), "\x1b[32mone\x1b[0m two thr") << "colours have no width";
  EXPECT_EQ(wrapped("\x1b[32mone\x1b[0m two three", 10), "\x1b[32mone\x1b[0m two\n  three");
}

}  // namespace
}  // namespace attnfuzz
