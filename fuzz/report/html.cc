#include "fuzz/report/html.h"

#include <cmath>
#include <cstdio>

namespace attnfuzz::report {
namespace {

constexpr const char* kReplacement = "\xef\xbf\xbd";

// Length of the UTF-8 sequence that begins here; 0 if none does.
size_t sequence(const std::string& text, size_t at) {
  const auto byte = [&](size_t n) { return static_cast<unsigned char>(n < text.size() ? text[n] : 0); };
  const unsigned char first = byte(at);
  const size_t length = first >= 0xf0 && first < 0xf5   ? 4
                        : first >= 0xe0 && first < 0xf0 ? 3
                        : first >= 0xc2 && first < 0xe0 ? 2
                                                        : 0;
  for (size_t n = 1; n < length; ++n) {
    if (byte(at + n) >> 6 != 2) return 0;
  }
  const unsigned second = byte(at + 1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second >= 0xa0, beyond = first == 0xf4 && second >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

std::string printed(const char* format, double x) {
  char text[64];
  std::snprintf(text, sizeof text, format, x);
  return text;
}

}  // namespace

std::string escape(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c >= 0x80) {
      const size_t length = sequence(text, at);
      out += length > 0 ? text.substr(at, length) : kReplacement;
      if (length > 0) at += length - 1;
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
      out += kReplacement;
    } else {
      out += text[at];
    }
  }
  return out;
}

std::string grouped(uint64_t n) {
  std::string digits = std::to_string(n);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, "\xe2\x80\xaf");
  }
  return digits;
}

std::string compact(double x) {
  if (!std::isfinite(x)) return "-";
  const double size = std::fabs(x);
  if (size >= 1e9) return printed("%.3gG", x / 1e9);
  if (size >= 1e6) return printed("%.3gM", x / 1e6);
  if (size >= 1e4) return printed("%.3gk", x / 1e3);
  return printed(size >= 100 || x == std::round(x) ? "%.0f" : "%.3g", x);
}

std::string duration(double seconds) {
  if (!(seconds >= 0)) return "-";
  const auto s = static_cast<long long>(std::min(seconds, 1e12) + 0.5);
  char text[64];
  if (s < 120) {
    std::snprintf(text, sizeof text, "%lld s", s);
  } else if (s < 3600) {
    std::snprintf(text, sizeof text, "%lld min", (s + 30) / 60);
  } else {
    std::snprintf(text, sizeof text, "%lld h %02lld min", s / 3600, s % 3600 / 60);
  }
  return text;
}

std::string percent(double part, double of) {
  if (!(of > 0)) return "-";
  const double share = 100 * part / of;
  if (part > 0 && share < 0.1) return "&lt; 0.1 %";
  return printed(share > 0 && share < 10 ? "%.1f %%" : "%.0f %%", share);
}

std::string ratio(double x) {
  if (std::isinf(x)) return "infinite";
  return x == 0 ? "0" : printed(x < 0.001 ? "%.1e" : "%.3g", x);
}

std::string point(double x) {
  std::string text = printed("%.2f", std::isfinite(x) ? x : 0);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace attnfuzz::report
