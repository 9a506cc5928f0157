// JSON as whoever reads a file wants it: strict, and bounded before it is built.
//
// A key given twice is refused (which of the two would count?), and so is what is
// nested deeper or holds more values than any file of ours: the JSON library
// recurses over a tree that it has built.
//
//   auto parsed = parse_json(text);
//   if (auto* error = std::get_if<DecodeError>(&parsed)) die(path + ": " + error->message);
//   const nlohmann::json& j = std::get<nlohmann::json>(parsed);
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "text/files.h"

namespace attnfuzz {

struct JsonLimits {
  int depth = 32;
  size_t values = size_t{1} << 21;
};

// Never throws, whatever the bytes; the message is one printable line.
std::variant<nlohmann::json, DecodeError> parse_json(std::string_view text, const JsonLimits& limits = {});
// The same with the names in the order of the text.
std::variant<nlohmann::ordered_json, DecodeError> parse_ordered_json(std::string_view text,
                                                                     const JsonLimits& limits = {});
// Of a line that may be cut short: nothing for whatever is wrong.
std::optional<nlohmann::ordered_json> json_line(std::string_view text);

// A value as a message shows it: short, printable.
template <class J>
std::string brief(const J& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array of " + std::to_string(value.size());
  const auto* text = value.template get_ptr<const std::string*>();
  if (text != nullptr && text->size() > 60) return brief(J(text->substr(0, 57) + "..."));
  return value.dump(-1, ' ', true, J::error_handler_t::replace);
}

}  // namespace attnfuzz
