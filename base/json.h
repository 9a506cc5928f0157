// Strict JSON. The parser limits size and depth. The writer accepts strings with any bytes.
//
// The parser refuses a key that is given twice. It also refuses a document that is
// deeper or larger than any file of ours, because the JSON library recurses over
// the tree that it has built.
//
//   auto parsed = parse_json(text);
//   if (auto* error = std::get_if<DecodeError>(&parsed)) die(path + ": " + error->message);
//   const Json& j = std::get<Json>(parsed);
//   write_file(path, json_text(j, 1) + "\n");
//
// Reader and writer are functions, so that the templates of the JSON library are compiled once.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/files.h"

namespace attnfuzz {

// Objects keep their names in the order of insertion.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  int depth = 32;
  size_t values = size_t{1} << 21;
};

// Never throws, whatever the bytes; the message is one printable line.
std::variant<Json, DecodeError> parse_json(std::string_view text, const JsonLimits& limits = {});
// Parses a line that may be cut short. Returns nothing if anything is wrong.
std::optional<Json> json_line(std::string_view text);
// Parses text that this program wrote or asked for. Throws std::runtime_error with the message.
Json json_of(std::string_view text);

// JSON is UTF-8, but messages from plug-ins may hold any bytes: invalid ones become U+FFFD.
// `indent` -1 writes one line.
std::string json_text(const Json& j, int indent = -1);
// A short printable form of a value, for messages.
std::string brief(const Json& value);

}  // namespace attnfuzz
