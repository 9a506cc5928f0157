// Landlock's constants, from the kernel's Documentation/userspace-api/landlock.rst, because the
// headers of Debian 12 end at version 2.
#pragma once

#include <cstdint>

namespace attnfuzz::landlock {

inline constexpr uint32_t kAskVersion = 1;
inline constexpr int kRulePathBeneath = 1;

// Rights over files: bits of Ruleset::files and of PathBeneath::allowed.
inline constexpr uint64_t kExecute = 1, kWriteFile = 2, kReadFile = 4, kReadDir = 8;
inline constexpr uint64_t kIoctlDevice = uint64_t{1} << 15;
// All rights that a version knows. Version 1 has 13; versions 2, 3 and 5 add one each (refer,
// truncate, ioctl).
constexpr uint64_t all_rights(int version) {
  const int bits = version >= 5 ? 16 : version >= 3 ? 15 : version == 2 ? 14 : 13;
  return (uint64_t{1} << bits) - 1;
}
// The rights that apply to a file rather than a folder.
inline constexpr uint64_t kOfFile = kExecute | kWriteFile | kReadFile | uint64_t{1} << 14 | kIoctlDevice;

inline constexpr uint64_t kBindTcp = 1, kConnectTcp = 2;
inline constexpr uint64_t kAbstractSockets = 1, kSignals = 2;

struct Ruleset {
  uint64_t files, network, scoped;  // network from version 4, scoped from 6
};
// The size of the ruleset that a version of Landlock takes.
constexpr uint32_t ruleset_bytes(int version) { return version >= 6 ? 24 : version >= 4 ? 16 : 8; }

struct [[gnu::packed]] PathBeneath {
  uint64_t allowed;
  int32_t parent;
};

}  // namespace attnfuzz::landlock
