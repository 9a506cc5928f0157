// Gives up rights of this process for good, before it loads an untrusted kernel.
//
// host/confinement.h lists the rights that are taken. The process may still compute in its own
// memory and in the arena, start threads, print, and read the system's libraries and the folder of
// the kernel's library. Inputs in the arena are read-only, and the arena's protection cannot be
// changed. On a GPU the process may also use the driver's devices (/dev/nvidia*) with ioctl() and
// mappings, and the effect of these calls is not confined. An interpreter (hosted.h) may also read
// its own files. If it tries to open or change another file, the call fails, but the process is not
// ended.
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

// `measures` are bits of Measure. Returns why one of them cannot be applied, or nothing.
std::optional<std::string> confine(uint32_t measures, const Confined& with, attn_backend backend,
                                   const Arena& arena);

// Confines the zygote, which imports modules for an untrusted file and forks workers. It keeps the
// rights to read files and to start processes. It can write only to /dev/null and a driver's
// devices, and cannot open TCP connections.
std::optional<std::string> confine_zygote(uint32_t measures);

// Splits "/usr/lib:/opt/lib" at ':'. A null pointer gives an empty list.
std::vector<std::string> paths_of(const char* list);

// The two parts of confine(). Files below `readable`, `writable`, `devices` and `programs` can be read, files
// below the second and third also written, `devices` also used by ioctl(), and `programs` also started. Paths
// that do not exist are skipped.
std::optional<std::string> restrict_files(uint32_t measures, const std::vector<std::string>& readable,
                                          const std::vector<std::string>& writable,
                                          const std::vector<std::string>& devices,
                                          const std::vector<std::string>& programs = {});
std::optional<std::string> restrict_calls(const Confined& with, attn_backend backend, const Arena& arena);

}  // namespace attnfuzz::worker
