// The static page with a report in it.
#include "fuzz/campaign/store/json_text.h"
#include "fuzz/report/report.h"

namespace attnfuzz::report {

extern const char* const kPageBegin;  // as CMake cuts page.html at its place for the data
extern const char* const kPageEnd;

std::string report_page(const nlohmann::ordered_json& report) {
  std::string page = kPageBegin;
  // Without "<" no text can end the element that holds it, nor begin a comment in it.
  for (const char c : json_text(report)) c == '<' ? page += "\\u003c" : page += c;
  return page + kPageEnd;
}

}  // namespace attnfuzz::report
