// These limits say how many failures a job files, and when it gives a case up.
#pragma once

#include <cstdint>

namespace attnfuzz {

// The most crashes of one kind and target that may wait for reduction. Cases and sequences of calls are counted
// apart. Without a limit a kernel that fails everywhere would fill the disk.
inline constexpr int32_t kMostWaiting = 12;
// The most crashes of one place in the kernel's code that a slice files. They are counted together, and
// must not keep others from being filed.
inline constexpr int kMostOfOneSite = 2;
// A case or a sequence of calls is filed once it has ended its job this many times. One or two deaths may have
// another cause.
inline constexpr int kMostExits = 3;

}  // namespace attnfuzz
