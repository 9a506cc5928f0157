// JSON as text, whatever bytes it holds.
//
// Messages and reasons come from plug-ins, and may be anything; JSON is UTF-8.
// What is none becomes U+FFFD: a campaign does not end over a word.
//
//   write_file(path, json_text(j, 1) + "\n");
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace attnfuzz {

template <class J>
std::string json_text(const J& j, int indent = -1) {
  return j.dump(indent, ' ', false, J::error_handler_t::replace);
}

// Keys as they will be read again, counts of keys that become one added up.
inline std::map<std::string, uint64_t> in_utf8(const std::map<std::string, uint64_t>& counts) {
  std::map<std::string, uint64_t> result;
  for (const auto& [key, n] : counts)
    result[nlohmann::json::parse(json_text(nlohmann::json(key))).get<std::string>()] += n;
  return result;
}

}  // namespace attnfuzz
