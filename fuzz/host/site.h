// Where in a kernel's code its worker died or is stuck, as one word that is the same
// each time: what a campaign groups failures by before it reduces any.
//
//   "SIGSEGV at libmine.so+0x1a2f"
//       the instruction, or the call into the C library it came from
//   "stuck in libmine.so+0x1a00"
//       the function that most of some samples lie in: a loop has many instructions
//   "stuck in run()"
//       it does not answer where it is: it is stopped, or blocks signals
//
// A function and not a name: plug-ins may be stripped. Everything comes from memory
// that the kernel may have written over, and is made safe.
#pragma once

#include <string>

#include "fuzz/host/worker_process.h"

namespace attnfuzz {

// Of a process that is dead. Empty where nothing is known.
std::string site_of_exit(const wire::Wire& wire);

// Of one that lives and does not come back. Takes some milliseconds; a second if it does not answer.
std::string site_of_hang(WorkerProcess& process);

}  // namespace attnfuzz
