#include "properties/explain/html.h"

namespace attnfuzz {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<style>
:root { color-scheme: light dark; }
body { font-family: sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; }
pre { overflow-x: auto; line-height: 1.25; }
svg { max-width: 100%; height: auto; }
</style>
)";

}  // namespace

std::string html_page(const std::string& title, const std::string& replay, const std::string& svg,
                      const std::string& text) {
  std::string page = kHead;
  page += "<title>" + escaped(title) + "</title>\n</head>\n<body>\n<h1>" + escaped(title) + "</h1>\n";
  if (!replay.empty()) page += "<p>To see it again: <code>" + escaped(replay) + "</code></p>\n";
  if (!svg.empty()) page += "<figure>\n" + svg + "</figure>\n";
  return page + "<pre>" + escaped(text) + "</pre>\n</body>\n</html>\n";
}

}  // namespace attnfuzz
