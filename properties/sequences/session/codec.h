// Reads and writes sessions as JSON. The files end in .calls.json.
//
//   write_file(path, encode({session, before}, found));
//   auto read = decode_session(file_text(path));       // SessionFile, or DecodeError
//
// Fields with their default are left out, so that equal sessions have equal text. The reader refuses unknown
// fields by name, unknown versions, wrong types, and sessions that are not legal (objection()).
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "properties/sequences/session/session.h"

namespace attnfuzz::sequences {

inline constexpr int kSessionVersion = 1;
inline constexpr size_t kMostBefore = 128;  // the most sessions of a file before its last one

// How a session was found. The command that replays it names the kernels.
struct FoundSession {
  std::vector<std::string> kernels;  // names or paths, as they were given
  std::string kind, message;         // of the failure; empty if the session did not fail
  // "cpu", "asan": where it was found, if that was written down
  std::string backend = {}, build = {};
  std::string call = {};  // SessionResult::call: a replay must make it; empty in files of older versions
  bool operator==(const FoundSession&) const = default;
};

struct SessionFile {
  Chain chain;
  FoundSession found;
};

// A setup as a file has it.
Json json_of(const Setup& setup);
std::string encode(const Chain& chain, const FoundSession& found = {});
// Never throws, whatever the text.
std::variant<SessionFile, DecodeError> decode_session(std::string_view text);
// True if the text is a session file of any version.
bool holds_session(std::string_view text);

}  // namespace attnfuzz::sequences
