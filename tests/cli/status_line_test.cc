// One line that is overwritten on a terminal, and now and then a line elsewhere.
#include "cli/status_line.h"

#include <gtest/gtest.h>

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

TEST(StatusLine, ThatComeNowAndThen) { EXPECT_EQ(shown(false, std::numeric_limits<double>::infinity()), ""); }

}  // namespace
}  // namespace attnfuzz
