#include "base/printable.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <utility>

namespace attnfuzz {
namespace {

struct Symbol {
  uint32_t code = 0;
  size_t bytes = 1;
  bool valid = false;
};

// The code point that begins at text[0]. If no valid UTF-8 begins there, the symbol is one byte and not valid.
Symbol first_of(std::string_view text) {
  const auto byte = [&](size_t n) { return static_cast<unsigned char>(n < text.size() ? text[n] : 0); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const size_t bytes = first >= 0xf0 && first < 0xf5   ? 4
                       : first >= 0xe0 && first < 0xf0 ? 3
                       : first >= 0xc2 && first < 0xe0 ? 2
                                                       : 0;
  if (bytes == 0) return {first};
  uint32_t code = first & (0xff >> (bytes + 1));
  for (size_t n = 1; n < bytes; ++n) {
    if (byte(n) >> 6 != 2) return {first};
    code = code << 6 | (byte(n) & 0x3f);
  }
  const bool overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  if (overlong || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return {first};
  return {code, bytes, true};
}

// Control characters, invisible marks, marks that turn the direction of writing, and non-characters.
bool is_hidden(uint32_t c) {
  const auto in = [c](uint32_t low, uint32_t high) { return c >= low && c <= high; };
  return c < 0x20 || in(0x7f, 0x9f) || c == 0xad || c == 0x61c || c == 0x180e || in(0x200b, 0x200f) ||
         in(0x2028, 0x202e) || in(0x2060, 0x206f) || c == 0xfeff || in(0xfff9, 0xfffb) || in(0xfdd0, 0xfdef) ||
         (c & 0xfffe) == 0xfffe || in(0xe0000, 0xe0fff);
}

std::string formatted(const char* format, uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string shown(const Symbol& symbol, std::string_view text) {
  if (!symbol.valid) return formatted("\\x%02x", symbol.code);
  if (!is_hidden(symbol.code)) return std::string(text.substr(0, symbol.bytes));
  if (symbol.code == '\n') return "\\n";
  if (symbol.code == '\t') return "\\t";
  return formatted(symbol.code < 0x80 ? "\\x%02x" : symbol.code < 0x10000 ? "\\u%04x" : "\\U%08x", symbol.code);
}

// Replaces each byte of `text` by escape(byte). A byte stays if escape() returns an empty string.
template <typename Escape>
std::string escaped(const std::string& text, Escape escape) {
  std::string out;
  for (const char ch : text) {
    const std::string other = escape(ch);
    out += other.empty() ? std::string(1, ch) : other;
  }
  return out;
}

bool is_plain_word(std::string_view text) {
  return !text.empty() && text.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "_./+-:=@%,") == text.npos;
}

// Edit distance: letters that differ, are missing, are superfluous, or are swapped with a neighbour.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j - 1] + (a[i - 1] != b[j - 1]), last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(last, row);
  }
  return last.back();
}

}  // namespace

std::string printable(std::string_view text, size_t most) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Symbol symbol = first_of(text.substr(at));
    const std::string next = shown(symbol, text.substr(at));
    if (out.size() + next.size() > most) {
      // The note lies within the limit, so that printable() changes a cut text no further.
      const std::string rest = "... (" + std::to_string(text.size()) + " bytes)";
      size_t end = std::min(out.size(), most > rest.size() ? most - rest.size() : 0);
      while (end > 0 && end < out.size() && static_cast<unsigned char>(out[end]) >> 6 == 2) --end;
      return out.substr(0, end) + rest;
    }
    out += next;
    at += symbol.bytes;
  }
  return out;
}

std::string printable_lines(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Symbol symbol = first_of(text.substr(at));
    const bool kept = symbol.code == '\n' || symbol.code == '\t';
    out += kept ? std::string(text.substr(at, 1)) : shown(symbol, text.substr(at));
    at += symbol.bytes;
  }
  return out;
}

std::string markdown(std::string_view text) {
  return escaped(printable(text), [](char ch) -> std::string {
    const bool means = std::string_view("\\`*[]<&|~#!").find(ch) != std::string_view::npos;
    return means ? std::string("\\") + ch : "";
  });
}

std::string in_literal(std::string_view text) {
  std::string out;
  for (const char ch : text) {
    const bool plain = ch >= 0x20 && ch < 0x7f && ch != '"' && ch != '\\' && ch != '?';
    out += plain ? std::string(1, ch) : formatted("\\%03o", static_cast<unsigned char>(ch));
  }
  return out;
}

std::string kernel_label(std::string_view name) {
  return printable(escaped(std::string(name), [](char ch) { return ch == '/' ? "\\x2f" : ""; }), 200);
}

std::string shell_word(std::string_view text) {
  if (text.starts_with('-')) return shell_word("./" + std::string(text));
  if (is_plain_word(text)) return std::string(text);
  if (printable(text, text.size()) == text) {
    return "'" + escaped(std::string(text), [](char ch) { return ch == '\'' ? "'\\''" : ""; }) + "'";
  }
  std::string out = "$'";
  for (const char ch : text) {
    const bool plain = ch >= 0x20 && ch < 0x7f && ch != '\'' && ch != '\\';
    out += plain ? std::string(1, ch) : formatted("\\%03o", static_cast<unsigned char>(ch));
  }
  return out + "'";
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string* nearest = nullptr;
  size_t least = std::clamp<size_t>(word.size() / 3, 1, 3) + 1;
  for (const std::string& one : known) {
    if (word.size() > 100 || one.size() > 100) continue;
    if (const size_t d = distance(word, one); d < least) {
      least = d;
      nearest = &one;
    }
  }
  return nearest ? ": did you mean '" + printable(*nearest) + "'?" : "";
}

}  // namespace attnfuzz
