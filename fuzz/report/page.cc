// The static page with a report in it.
#include "fuzz/report/report.h"
#include "base/json.h"
#include "base/printable.h"

namespace attnfuzz::report {

extern const char* const kPageBegin;  // as CMake cuts page.html at its place for the data
extern const char* const kPageEnd;

namespace {

// For eyes: what would hide text, or turn its direction, is seen as what it is.
Json shown(const Json& j) {
  if (j.is_string()) return printable_lines(j.get_ref<const std::string&>());
  if (!j.is_structured()) return j;
  Json out = j.is_array() ? Json::array() : Json::object();
  for (const auto& [name, value] : j.items()) {
    if (j.is_array()) {
      out.push_back(shown(value));
    } else {
      out[printable(name)] = shown(value);
    }
  }
  return out;
}

}  // namespace

std::string report_page(const Json& report) {
  std::string page = kPageBegin;
  // Without "<" no text can end the element that holds it, nor begin a comment in it.
  for (const char c : json_text(shown(report))) c == '<' ? page += "\\u003c" : page += c;
  return page + kPageEnd;
}

}  // namespace attnfuzz::report
