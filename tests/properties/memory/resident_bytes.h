// Measures the memory that an arena really uses.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>

#include "properties/memory/arena.h"

namespace attnfuzz {

// The bytes of the arena's pages that exist because something wrote to them.
inline int64_t resident_bytes(const Arena& arena) {
  struct stat status;
  EXPECT_EQ(fstat(arena.fd(), &status), 0);
  return int64_t{status.st_blocks} * 512;
}

}  // namespace attnfuzz
