// The static page with a report in it.
#include "fuzz/report/report.h"
#include "base/json.h"
#include "base/printable.h"

namespace attnfuzz::report {

extern const char* const kPageBegin;  // page.html, cut by CMake at the place for its data
extern const char* const kPageEnd;

namespace {

// Makes characters visible that hide text or change its direction.
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
  // Without "<", no text can end its element or begin a comment in it.
  for (const char c : json_text(shown(report))) c == '<' ? page += "\\u003c" : page += c;
  return page + kPageEnd;
}

}  // namespace attnfuzz::report
