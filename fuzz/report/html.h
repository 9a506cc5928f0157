// Text of the report: everything that comes from a file goes through escape().
//
//   html += cat("<td>", escape(finding.message), "</td>");
#pragma once

#include <cstdint>
#include <string>

namespace attnfuzz::report {

// For text and for attributes in double quotes. What is no UTF-8, and control
// characters, which no HTML may hold, become U+FFFD.
std::string escape(const std::string& text);

std::string grouped(uint64_t n);              // 12 345 678, with thin spaces
std::string compact(double x);                // 950, 12.3k, 4.5M
std::string duration(double seconds);         // 45 s, 12 min, 2 h 05 min
std::string percent(double part, double of);  // 0 %, 0.3 %, 12 %
std::string ratio(double x);                  // of error to bound: 0.0873, 1.2, infinite
std::string point(double x);                  // a coordinate in SVG, two digits

extern const char* const kStyle;  // the page's style sheet

}  // namespace attnfuzz::report
