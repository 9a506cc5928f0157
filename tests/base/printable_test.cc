// Tests that text by strangers cannot act on a terminal, on JSON or on XML.
#include "base/printable.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>

namespace attnfuzz {
namespace {

std::vector<std::string> hostile() {
  std::vector<std::string> texts = {"",
                                    "plain",
                                    "it's \"quoted\"",
                                    "a\nb\r\tc",
                                    "\x1b[2J\x1b]0;t\x07",
                                    "$(touch x)`y`",
                                    "\\",
                                    "*/ \"\"\" '''",
                                    "\xff\xfe\xc3",
                                    "\xe2\x80\xae\xe2\x81\xa6",
                                    "\xed\xa0\x80",
                                    "\xf4\x90\x80\x80",
                                    "\xc0\xaf",
                                    "\xef\xbf\xbf",
                                    "\xc2\x85",
                                    "-rf",
                                    "~",
                                    "a b",
                                    "<b>&[x](y)|",
                                    "?\?/",
                                    "\xd7\xa9",
                                    std::string("a\0b", 3)};
  std::string all;
  for (int n = 1; n < 256; ++n) all += static_cast<char>(n);
  texts.push_back(all);
  texts.push_back(all + all);
  return texts;
}

TEST(Printable, IsOneVisibleLineOfUtf8) {
  EXPECT_EQ(printable("caf\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x99\x82"),
            "caf\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x99\x82");
  EXPECT_EQ(printable("a\nb\t\x1b[31m\x7f"), "a\\nb\\t\\x1b[31m\\x7f");
  EXPECT_EQ(printable("\xff\xc3(\xed\xa0\x80"), "\\xff\\xc3(\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xe2\x80\xae\xc2\x9b\xef\xbb\xbf"), "\\u202e\\u009b\\ufeff");
  EXPECT_EQ(printable("\xf3\xa0\x80\x81"), "\\U000e0001");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  for (const std::string& text : hostile()) {
    EXPECT_EQ(printable(printable(text)), printable(text));
    EXPECT_EQ(printable_lines(printable_lines(text)), printable_lines(text));
  }
}

TEST(Printable, CutsALongText) {
  const std::string said = printable(std::string(10 << 20, 'x'));
  EXPECT_LE(said.size(), kMostShown);
  EXPECT_TRUE(said.ends_with("... (10485760 bytes)"));
  EXPECT_EQ(printable(said), said);
  // The cut is not in the middle of a character.
  std::string wide;
  for (int n = 0; n < 5000; ++n) wide += "\xf0\x9f\x99\x82";
  for (size_t most = 100; most < 108; ++most)
    EXPECT_EQ(printable(printable(wide, most), most).find("\\x"), std::string::npos);
}

TEST(Markdown, LeavesNoMarkup) {
  EXPECT_EQ(markdown("causal (top-left), seq_k >= 65"), "causal (top-left), seq_k >= 65");
  EXPECT_EQ(markdown("[x](y) `z` <b> a|b *c*\n# d"), R"(\[x\](y) \`z\` \<b> a\|b \*c\*\\n\# d)");
}

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
  std::string text;
  std::array<char, 4096> buffer;
  for (size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) > 0;)
    text.append(buffer.data(), n);
  return text;
}

// bash itself reads the words.
TEST(ShellWord, IsOneWordOfTheSameBytes) {
  for (const std::string& text : hostile()) {
    if (text.find('\0') != text.npos) continue;  // no argument holds one
    const std::string word = shell_word(text);
    EXPECT_EQ(word, printable(word, word.size())) << word;
    std::string script;
    for (const char ch : "printf %s " + word) script += ch == '\'' ? "'\\''" : std::string(1, ch);
    EXPECT_EQ(output_of("LC_ALL=C bash -c '" + script + "'"), (text.starts_with('-') ? "./" : "") + text)
        << word;
  }
  EXPECT_EQ(shell_word("found/fa1-wrong.attn.json"), "found/fa1-wrong.attn.json");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
}

TEST(InLiteral, IsAsciiWithoutItsOwnEnd) {
  EXPECT_EQ(in_literal("3c00 64*0000"), "3c00 64*0000");
  EXPECT_EQ(in_literal("\"\\\n7\xff?\?/"), "\\042\\134\\0127\\377\\077\\077/");
}

TEST(Suggestion, NamesTheNearest) {
  const std::vector<std::string> build_kinds = {"plain", "asan", "tsan", "msan-O0"};
  EXPECT_EQ(suggestion("plian", build_kinds), ": did you mean 'plain'?");
  EXPECT_EQ(suggestion("assan", build_kinds), ": did you mean 'asan'?");
  EXPECT_EQ(suggestion("cdua", {"cpu", "cuda"}), ": did you mean 'cuda'?");
  EXPECT_EQ(suggestion("fish", {"bash", "words"}), "");
  EXPECT_EQ(suggestion("nothing", build_kinds), "");
  EXPECT_EQ(suggestion(std::string(1 << 20, 'x'), build_kinds), "");
}

}  // namespace
}  // namespace attnfuzz
