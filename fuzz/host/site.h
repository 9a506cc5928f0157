// Names the place in a kernel's code where its worker died or is stuck. The name is the same each time; a
// campaign groups failures by it before it reduces any.
//
//   "SIGSEGV at libmine.so+0x1a2f"
//       the instruction, or the call into the C library that led to it
//   "stuck in libmine.so+0x1a00"
//       the function in which most samples lie, because a loop has many instructions
//   "stuck in run()"
//       no place is known: the worker is stopped, or blocks signals
//
// A function is named by its address, because plug-ins may be stripped. Everything comes from
// memory that the kernel may have overwritten, so it is sanitised.
#pragma once

#include <string>

#include "fuzz/host/worker_process.h"

namespace attnfuzz {

// The site of a dead process. Empty if nothing is known.
std::string site_of_exit(const wire::Wire& wire);

// The site of a process that lives and does not answer. Takes some milliseconds, or a second if it blocks
// signals.
std::string site_of_hang(WorkerProcess& process);

}  // namespace attnfuzz
