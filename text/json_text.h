// JSON as text, whatever bytes it holds.
//
// Messages and reasons come from plug-ins, and may be anything; JSON is UTF-8.
// What is none becomes U+FFFD: a campaign does not end over a word.
//
//   write_file(path, json_text(j, 1) + "\n");
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace attnfuzz {

template <class J>
std::string json_text(const J& j, int indent = -1) {
  return j.dump(indent, ' ', false, J::error_handler_t::replace);
}

}  // namespace attnfuzz
