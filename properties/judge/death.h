// How a worker died. Its words, "SIGFPE in run(), at libmine.so+0x1a2f", are for people.
#pragma once

#include <cstdint>

namespace attnfuzz {

enum class Death : uint8_t {
  kNone,        // it lives, or nothing is known
  kKilled,      // SIGKILL: the kernel's own, or anyone's who may send it one
  kArithmetic,  // SIGFPE: an integer was divided by zero
  kSignal,      // another signal
  kExit,        // it ended itself, with whatever status
};

}  // namespace attnfuzz
