// A mirror is a folder with copies of files. Each copy lies below it at the path of its original:
//
//   /home/me/attention.cu   ->   DIRECTORY/attn_mirror/home/me/attention.cu
//
// attnfuzz-translate writes a mirror for compilers that cannot substitute the text of a file.
// attnfuzz-identity names the originals of the copies that such a compiler read.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace attnfuzz {

inline constexpr std::string_view kMirror = "/attn_mirror/";

// `path`: absolute.
inline std::string mirrored(const std::string& directory, const std::string& path) {
  return directory + std::string(kMirror) + path.substr(1);
}

// The original of a copy; nothing if `path` lies in no mirror.
inline std::optional<std::string> original_of(const std::string& path) {
  const size_t at = path.rfind(kMirror);
  if (at == path.npos) return std::nullopt;
  return path.substr(at + kMirror.size() - 1);
}

}  // namespace attnfuzz
