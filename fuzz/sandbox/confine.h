// Takes rights from this process for good, before it loads a kernel that nobody vouches for.
//
// The rights that are taken are listed in host/confinement.h. These remain: to compute, in its own memory and
// in the arena, whose inputs can only be read and whose protection cannot be changed; threads;
// reading the system's libraries and the folder that the kernel's library lies in; printing.
// On a device its driver's devices (/dev/nvidia*), with ioctl() and mappings, too, and what those can do is not
// confined. An interpreter (hosted.h) reads its own files, and tries more of them than there are: what it may
// not open or change fails there, and is no reason to end it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "properties/memory/arena.h"

namespace attnfuzz::worker {

struct Confined {
  std::vector<std::string> readable;  // files and folders besides the system's
  bool interpreter = false;
};

// `measures` are bits of Measure. The reason why one of them cannot be had, or nothing.
std::optional<std::string> confine(uint32_t measures, const Confined& with, attn_backend backend,
                                   const Arena& arena);

// The process that imports modules for a stranger's file and forks workers: it may read and begin processes as
// before, and writes to nothing but a driver's devices. Opens no TCP connection.
std::optional<std::string> confine_zygote(uint32_t measures);

// "/usr/lib:/opt/lib" one by one; none of a null pointer.
std::vector<std::string> paths_of(const char* list);

// Its parts. Of all paths that exist the files below can be read; those of `writable` and `devices` written
// too, and the latter talked to by ioctl().
std::optional<std::string> restrict_files(uint32_t measures, const std::vector<std::string>& readable,
                                          const std::vector<std::string>& writable,
                                          const std::vector<std::string>& devices);
std::optional<std::string> restrict_calls(const Confined& with, attn_backend backend, const Arena& arena);

}  // namespace attnfuzz::worker
