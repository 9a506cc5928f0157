#include <charconv>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>

#include "base/json.h"
#include "properties/case/codec/codec.h"
#include "properties/case/codec/codec_fields.h"

namespace attnfuzz {
namespace codec {
namespace {

constexpr size_t kMaxText = size_t{16} << 20;                             // bytes
constexpr JsonLimits kLimits = {.depth = 16, .values = size_t{1} << 21};  // more than all arrays can hold

// A field's name from a file: shortened, if it is long or not printable.
std::string brief_name(const std::string& name) {
  const std::string shown = brief(Json(name));
  return shown == '"' + name + '"' ? name : shown;
}

class Reader {
 public:
  bool good() const { return error_.empty(); }
  const std::string& error() const { return error_; }

  template <Structure T>
  void value(const Json& json, T* out, Plain) {
    if (!json.is_object()) return fail(json, std::string("an object, ") + kFields<T>.what);
    size_t seen = 0;
    kFields<T>.all.apply([&](const auto&... field) { (member(json, *out, field, &seen), ...); });
    if (good() && seen != json.size()) unknown_field<T>(json);
  }
  void value(const Json& json, bool* out, Plain) {
    if (!json.is_boolean()) return fail(json, "true or false");
    *out = json.get<bool>();
  }
  template <std::integral T>
  void value(const Json& json, T* out, Plain) {
    integer(json, out, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  }
  template <std::integral T>
  void value(const Json& json, T* out, Within form) {
    integer(json, out, static_cast<T>(form.low), static_cast<T>(form.high));
  }
  void value(const Json& json, uint32_t* out, Bits) {
    const auto* text = json.get_ptr<const std::string*>();
    if (text != nullptr && text->starts_with("0x") && text->size() <= 10) {
      const auto [end, error] = std::from_chars(text->data() + 2, text->data() + text->size(), *out, 16);
      if (error == std::errc{} && end == text->data() + text->size()) return;
    }
    fail(json, "bits as \"0x7e00\", at most 8 digits");
  }
  void value(const Json& json, float* out, Plain) {
    if (!json.is_number() || std::fabs(json.get<double>()) > std::numeric_limits<float>::max()) {
      return fail(json, "a finite number that a float can hold");
    }
    *out = static_cast<float>(json.get<double>());
    if (*out == 0) *out = 0;  // -0 equals 0 and is written as 0
  }
  void value(const Json& json, std::string* out, Plain) {
    if (!json.is_string()) return fail(json, "a string");
    *out = json.get<std::string>();
  }
  template <typename E>
  void value(const Json& json, E* out, Names form) {
    if (const auto* text = json.get_ptr<const std::string*>()) {
      const auto found = std::ranges::find(form.names, *text);
      if (found != form.names.end()) {
        *out = static_cast<E>(found - form.names.begin());
        return;
      }
    }
    std::string allowed;
    for (const char* name : form.names) allowed += (allowed.empty() ? "\"" : ", \"") + std::string(name) + '"';
    fail(json, "one of " + allowed);
  }
  template <typename T>
  void value(const Json& json, std::vector<T>* out, AtMost form) {
    if (!json.is_array() || json.size() > form.size) {
      return fail(json, "an array of at most " + std::to_string(form.size));
    }
    out->assign(json.size(), T{});
    list(json, out, Plain{});
  }
  void value(const Json& json, std::array<uint8_t, 3>* out, Within form) {
    if (!json.is_array() || json.size() != out->size()) return fail(json, "an array of 3");
    list(json, out, form);
  }
  void value(const Json& json, std::array<TensorLayout, kTensorCount>* out, Plain) {
    if (!json.is_object()) return fail(json, "an object, layouts by tensor");
    for (const auto& [name, layout] : json.items()) {
      const auto found = std::ranges::find(kTensorNames, name);
      if (found == kTensorNames.end()) return fail_name(name, "a tensor", kTensorNames);
      const PathEntry entry(*this, '.' + name);
      value(layout, &(*out)[static_cast<size_t>(found - kTensorNames.begin())], Plain{});
    }
  }
  template <typename T>
  void value(const Json& json, std::optional<T>* out, auto form) {
    value(json, &out->emplace(), form);
  }

 private:
  // Extends the path while it lives.
  class PathEntry {
   public:
    PathEntry(Reader& reader, const std::string& text) : path_(reader.path_), size_(path_.size()) {
      path_ += text;
    }
    ~PathEntry() { path_.resize(size_); }

   private:
    std::string& path_;
    size_t size_;
  };

  template <typename T, typename M, typename Form>
  void member(const Json& json, T& out, const Field<T, M, Form>& field, size_t* seen) {
    const auto found = json.find(field.name);
    if (!good() || found == json.end()) return;
    ++*seen;
    const PathEntry entry(*this, std::string(1, '.') + field.name);
    value(*found, &(out.*field.member), field.form);
  }
  // decode() has checked the value already.
  void member(const Json& json, Case&, const FormatField& field, size_t* seen) {
    *seen += json.contains(field.name);
  }

  template <typename T>
  void unknown_field(const Json& json) {
    constexpr auto kKnown = kFields<T>.names();
    for (const auto& [name, value] : json.items()) {
      if (std::ranges::find(kKnown, name) == kKnown.end())
        return fail_name(name, std::string("a field of ") + kFields<T>.what, kKnown);
    }
  }

  template <typename T>
  void integer(const Json& json, T* out, T low, T high) {
    if (json.is_number_integer()) {  // of either sign
      const bool above = json.is_number_unsigned() ? std::cmp_greater(json.get<uint64_t>(), high)
                                                   : std::cmp_greater(json.get<int64_t>(), high);
      const bool below = !json.is_number_unsigned() && std::cmp_less(json.get<int64_t>(), low);
      if (!above && !below) {
        *out = json.is_number_unsigned() ? static_cast<T>(json.get<uint64_t>())
                                         : static_cast<T>(json.get<int64_t>());
        return;
      }
    }
    fail(json, low == high ? std::to_string(low)
                           : "an integer in " + std::to_string(low) + ".." + std::to_string(high));
  }

  void list(const Json& json, auto* out, auto form) {
    for (size_t n = 0; n < json.size() && good(); ++n) {
      const PathEntry entry(*this, '[' + std::to_string(n) + ']');
      value(json[n], &(*out)[n], form);
    }
  }

  // The path without the dot before its first name.
  std::string path() const { return path_.empty() ? "the text" : path_.substr(1); }
  void fail(const Json& json, const std::string& allowed) {
    if (good()) error_ = path() + " is " + brief(json) + ", must be " + allowed;
  }
  void fail_name(const std::string& name, const std::string& what, const auto& known) {
    if (!good()) return;
    error_ = (path_.empty() ? "" : path() + '.') + brief_name(name) + " is not " + what + ": those are ";
    bool first = true;
    for (const char* text : known) {
      error_ += (first ? "" : ", ") + std::string(text);
      first = false;
    }
  }

  std::string path_, error_;
};

std::variant<Case, DecodeError> read(std::string_view text) {
  if (text.size() > kMaxText) {
    return DecodeError{"the text has " + std::to_string(text.size()) + " bytes, may have " +
                       std::to_string(kMaxText)};
  }
  const auto parsed = parse_json(text, kLimits);
  if (const auto* error = std::get_if<DecodeError>(&parsed)) return *error;
  const Json& json = std::get<Json>(parsed);
  if (json.is_object()) {
    const std::string expected = std::to_string(Case::kFormat);
    const auto format = json.find("format");
    if (format == json.end()) return DecodeError{"format is missing, must be " + expected};
    if (!format->is_number_integer() || *format != Case::kFormat) {
      return DecodeError{"format is " + brief(*format) + ", must be " + expected};
    }
  }
  Case c;
  Reader reader;
  reader.value(json, &c, Plain{});
  if (!reader.good()) return DecodeError{reader.error()};
  return c;
}

}  // namespace
}  // namespace codec

std::variant<Case, DecodeError> decode(std::string_view text) {
  try {
    return codec::read(text);
  } catch (const std::exception& e) {
    return DecodeError{std::string("not read: ") + e.what()};
  }
}

}  // namespace attnfuzz
