#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdlib>

#include "base/json.h"
#include "properties/case/codec/codec.h"
#include "properties/case/codec/codec_fields.h"

namespace attnfuzz {
namespace codec {
namespace {

// Writes text straight from the table, as Json would dump it, without building a tree.
class Writer {
 public:
  template <Structure T>
  void value(const T& x, Plain) {
    bool first = true;
    out += '{';
    kFields<T>.all.apply([&](const auto&... field) { (member(x, field, &first), ...); });
    out += '}';
  }
  void value(bool x, Plain) { out += x ? "true" : "false"; }
  void value(std::integral auto x, Plain) {
    char digits[24];
    out.append(digits, std::to_chars(digits, std::end(digits), x).ptr);
  }
  void value(std::integral auto x, Within) { value(x, Plain{}); }
  void value(uint32_t x, Bits) {
    char digits[8];
    const auto end = std::to_chars(digits, std::end(digits), x, 16).ptr;
    out += "\"0x";
    out.append(static_cast<size_t>(std::max<std::ptrdiff_t>(4 - (end - digits), 0)), '0');
    out.append(digits, end);
    out += '"';
  }
  void value(float x, Plain) {
    // NaN and infinities are not legal, but a case that has one can still be shown.
    if (!std::isfinite(x)) return value(std::bit_cast<uint32_t>(x), Bits{});
    if (x == 0) x = 0;  // -0 equals 0
    char digits[32];
    *std::to_chars(digits, std::end(digits) - 1, x).ptr = 0;
    double shortest = std::strtod(digits, nullptr);
    if (static_cast<float>(shortest) != x) shortest = x;
    out += json_text(Json(shortest));
  }
  void value(const std::string& x, Plain) { out += json_text(Json(x)); }
  template <typename E>
    requires std::is_enum_v<E> || std::integral<E>
  void value(E x, Names form) {
    const auto index = static_cast<uint64_t>(x);
    // illegal, but it can be shown
    if (index >= form.names.size()) return value(static_cast<int64_t>(x), Plain{});
    out += '"';
    out += form.names[index];
    out += '"';
  }
  void value(const auto& x, AtMost)
    requires requires { x.size(); }
  {
    list(x, Plain{});
  }
  void value(const std::array<uint8_t, 3>& x, Within) { list(x, Plain{}); }
  void value(const std::array<TensorLayout, kTensorCount>& x, Plain) {
    static constexpr auto kOrder = tensors_by_name();
    bool first = true;
    out += '{';
    for (const size_t t : kOrder) {
      if (x[t] == TensorLayout{}) continue;
      name(kTensorNames[t], &first);
      value(x[t], Plain{});
    }
    out += '}';
  }
  template <typename T>
  void value(const std::optional<T>& x, auto form) {
    value(*x, form);  // an empty optional is the default, and is left out
  }

  std::string out;

 private:
  template <typename T, typename M, typename Form>
  void member(const T& x, const Field<T, M, Form>& field, bool* first) {
    static const T kDefault{};
    if (x.*field.member == kDefault.*field.member) return;
    name(field.name, first);
    value(x.*field.member, field.form);
  }
  void member(const Case&, const FormatField& field, bool* first) {
    name(field.name, first);
    value(Case::kFormat, Plain{});
  }

  void name(const char* text, bool* first) {
    if (!*first) out += ',';
    *first = false;
    out += '"';
    out += text;
    out += "\":";
  }
  void list(const auto& x, auto form) {
    out += '[';
    bool first = true;
    for (const auto& item : x) {
      if (!first) out += ',';
      first = false;
      value(item, form);
    }
    out += ']';
  }
};

}  // namespace
}  // namespace codec

std::string encode(const Case& c) {
  codec::Writer writer;
  writer.out.reserve(1024);
  writer.value(c, codec::Plain{});
  return std::move(writer.out);
}

}  // namespace attnfuzz
