// Tests that the page holds its texts, and nothing that a browser would run or fetch.
#include "properties/explain/html.h"

#include <gtest/gtest.h>

namespace attnfuzz {
namespace {

TEST(Html, KeepsTextAsText) {
  const std::string page =
      html_page("a < b", "attnfuzz replay \"x y.json\"", "<svg></svg>\n", "O & LSE <script>");
  EXPECT_NE(page.find("<title>a &lt; b</title>"), std::string::npos) << page;
  EXPECT_NE(page.find("<code>attnfuzz replay &quot;x y.json&quot;</code>"), std::string::npos);
  EXPECT_NE(page.find("<figure>\n<svg></svg>\n</figure>"), std::string::npos);
  EXPECT_NE(page.find("<pre>O &amp; LSE &lt;script&gt;</pre>"), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos);
}

TEST(Html, LeavesOutMissingParts) {
  const std::string page = html_page("a", "", "", "text");
  EXPECT_EQ(page.find("<figure>"), std::string::npos);
  EXPECT_EQ(page.find("To see it again"), std::string::npos);
}

}  // namespace
}  // namespace attnfuzz
