// Tests which texts parse_json() refuses, and that it refuses them fast.
#include "base/json.h"

#include <gtest/gtest.h>

namespace attnfuzz {
namespace {

std::string repeated(const std::string& text, size_t n) {
  std::string all;
  for (size_t i = 0; i < n; ++i) all += text;
  return all;
}

std::string refusal(const std::string& text, const JsonLimits& limits = {}) {
  const auto parsed = parse_json(text, limits);
  const auto* error = std::get_if<DecodeError>(&parsed);
  return error ? error->message : "";
}

TEST(ParseJson, ReadsAsTheLibraryDoes) {
  for (const std::string text : {"null", "[]", "{}", "\"a\"", "-3", "18446744073709551615", "0.1",
                                 "[true, false]", R"({"b":[1,{"a":null}],"a":{"b":"\u00e9\u0000"}})"}) {
    const auto parsed = parse_json(text);
    ASSERT_TRUE(std::holds_alternative<Json>(parsed)) << text;
    EXPECT_EQ(std::get<Json>(parsed), Json::parse(text));
    EXPECT_EQ(json_text(std::get<Json>(parsed)), Json::parse(text).dump());
  }
}

TEST(ParseJson, RefusesTextThatIsNotJson) {
  EXPECT_TRUE(refusal("").starts_with("not JSON: parse error at line 1, column 1"));
  EXPECT_TRUE(refusal("{}x").starts_with("not JSON: parse error at line 1, column 3"));
  EXPECT_TRUE(refusal("1e999").starts_with("not JSON: number overflow"));
  EXPECT_TRUE(refusal("\"\xff\"").starts_with("not JSON"));
}

TEST(ParseJson, RefusesAKeyGivenTwice) {
  EXPECT_EQ(refusal(R"({"a":1,"b":2,"a":1})"), "a field is given twice, may be given once: a");
  EXPECT_EQ(refusal(R"([{"x":{"a":1,"\u0061":2}}])"), "a field is given twice, may be given once: a");
  EXPECT_EQ(refusal(R"({"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]})"), "");
  EXPECT_EQ(refusal(R"({"\n":1,"\n":2})"), "a field is given twice, may be given once: \\n");
}

TEST(ParseJson, RefusesDeepNesting) {
  EXPECT_EQ(refusal(repeated("[", 32) + repeated("]", 32)), "");
  EXPECT_EQ(refusal(repeated("[", 33) + repeated("]", 33)), "the text is nested more than 32 deep");
  EXPECT_EQ(refusal(repeated("[", 10'000'000)), "the text is nested more than 32 deep");
  EXPECT_EQ(refusal(repeated("{\"a\":", 100'000)), "the text is nested more than 32 deep");
}

TEST(ParseJson, BoundsTheTree) {
  EXPECT_EQ(refusal("[" + repeated("0,", 9) + "0]", {.values = 10}), "the text holds more than 10 values");
  EXPECT_EQ(refusal("[" + repeated("0,", 8) + "0]", {.values = 10}), "");
}

// A search for each name among those before it would take hours.
TEST(ParseJson, ManyNamesCostLittle) {
  std::string text = "{";
  for (int i = 0; i < 500'000; ++i) text += '"' + std::to_string(i) + "\":0,";
  EXPECT_EQ(refusal(text + "\"x\":0}"), "");
}

TEST(ParseJson, RefusalsAreShortAndPrintable) {
  const std::string huge(10 << 20, 'x');
  for (const std::string& text : {huge, '"' + huge, "\"\x1b" + huge, "{\"" + huge + "\":1,\"" + huge + "\":2}",
                                  std::string("{\"\x1b[31m"), std::string("[\"\n")}) {
    const std::string said = refusal(text);
    EXPECT_LT(said.size(), 300u);
    for (const char ch : said) EXPECT_GE(ch, ' ') << said;
  }
}

TEST(Brief, IsShort) {
  EXPECT_EQ(brief(Json::array({1, 2})), "an array of 2");
  EXPECT_EQ(brief(Json("\x1b\xff")), "\"\\u001b\\ufffd\"");
  EXPECT_LT(brief(Json(std::string(1 << 20, 'x'))).size(), 70u);
}

}  // namespace
}  // namespace attnfuzz
