// JSON as whoever reads a file wants it: strict, and bounded before it is built;
// and as text, whatever bytes it holds.
//
// A key given twice is refused (which of the two would count?), and so is what is
// nested deeper or holds more values than any file of ours: the JSON library
// recurses over a tree that it has built.
//
//   auto parsed = parse_json(text);
//   if (auto* error = std::get_if<DecodeError>(&parsed)) die(path + ": " + error->message);
//   const Json& j = std::get<Json>(parsed);
//   write_file(path, json_text(j, 1) + "\n");
//
// Reader and writer are functions here, so that the library's templates of them are compiled once.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/files.h"

namespace attnfuzz {

// Names in the order in which they were read or given.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  int depth = 32;
  size_t values = size_t{1} << 21;
};

// Never throws, whatever the bytes; the message is one printable line.
std::variant<Json, DecodeError> parse_json(std::string_view text, const JsonLimits& limits = {});
// Of a line that may be cut short: nothing for whatever is wrong.
std::optional<Json> json_line(std::string_view text);
// Of text that this program wrote, or asked another for: throws std::runtime_error with the message.
Json json_of(std::string_view text);

// Messages and reasons come from plug-ins, and may be anything; JSON is UTF-8. What is none
// becomes U+FFFD: a campaign does not end over a word. `indent` -1: on one line.
std::string json_text(const Json& j, int indent = -1);
// A value as a message shows it: short, printable.
std::string brief(const Json& value);

}  // namespace attnfuzz
