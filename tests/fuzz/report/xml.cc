#include "tests/fuzz/report/xml.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <vector>

namespace attnfuzz {
namespace {

struct Reader {
  const std::string& text;
  size_t at = 0;
  std::vector<std::string> open;

  bool starts(const char* what) const {
    return text.compare(at, std::char_traits<char>::length(what), what) == 0;
  }
  std::string error(const std::string& what) const {
    const auto line =
        std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(at, text.size())), '\n');
    return what + " in line " + std::to_string(line + 1) + ": " + text.substr(at, 80);
  }
  std::string name() {
    const size_t begin = at;
    while (at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '-')) ++at;
    return text.substr(begin, at - begin);
  }
  void space() {
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at]))) ++at;
  }
  // One character of text or of an attribute.
  std::string character() {
    if (text[at] != '&') {
      if (static_cast<unsigned char>(text[at]) < 32 && text[at] != '\n' && text[at] != '\t')
        return error("a control character");
      ++at;
      return "";
    }
    for (const char* entity : {"&lt;", "&gt;", "&amp;", "&quot;", "&apos;"}) {
      if (!starts(entity)) continue;
      at += std::char_traits<char>::length(entity);
      return "";
    }
    return error("an entity that is none");
  }
  std::string tag() {
    ++at;
    if (text[at] == '/') {
      ++at;
      const std::string closed = name();
      if (open.empty() || open.back() != closed) return error("</" + closed + "> closes what is not open");
      open.pop_back();
      if (text[at] != '>') return error("no > after </" + closed);
      ++at;
      return "";
    }
    const std::string element = name();
    if (element.empty()) return error("a < that begins no tag");
    std::set<std::string> attributes;
    for (;;) {
      space();
      if (starts("/>")) {
        at += 2;
        return "";
      }
      if (starts(">")) {
        ++at;
        open.push_back(element);
        return "";
      }
      const std::string attribute = name();
      if (attribute.empty() || !attributes.insert(attribute).second)
        return error("an attribute in <" + element);
      if (!starts("=\"")) return error("a value without quotes in <" + element);
      at += 2;
      while (at < text.size() && text[at] != '"') {
        if (text[at] == '<') return error("< in an attribute");
        if (std::string why = character(); !why.empty()) return why;
      }
      if (at == text.size()) return error("an attribute that does not end");
      ++at;
    }
  }
};

}  // namespace

std::string malformed(const std::string& text) {
  Reader reader{text, 0, {}};
  const std::string doctype = "<!DOCTYPE html>\n";
  if (!text.starts_with(doctype)) return "no doctype";
  reader.at = doctype.size();
  while (reader.at < text.size()) {
    const bool markup = text[reader.at] == '<';
    if (!markup && reader.open.empty() && !std::isspace(static_cast<unsigned char>(text[reader.at])))
      return reader.error("text outside of everything");
    if (std::string why = markup ? reader.tag() : reader.character(); !why.empty()) return why;
  }
  return reader.open.empty() ? "" : "<" + reader.open.back() + "> is never closed";
}

}  // namespace attnfuzz
