// The cause of a worker's death. Its text for people is, for example, "SIGFPE in run(), at libmine.so+0x1a2f".
#pragma once

#include <cstdint>

namespace attnfuzz {

enum class ExitReason : uint8_t {
  kNone,        // it lives, or nothing is known
  kKilled,      // SIGKILL: by the kernel itself, or by anyone who may send it
  kArithmetic,  // SIGFPE: an integer division by zero
  kSignal,      // another signal
  kExit,        // it ended itself, with any status
};

}  // namespace attnfuzz
