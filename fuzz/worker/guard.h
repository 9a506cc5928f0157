// The process between the command and a worker: what a kernel does to its parent,
// or leaves behind, ends here.
//
// The command starts a guard; the guard starts the same program once more as the
// worker that loads the kernel, tells its process id and afterwards how it ended
// (wire::kStatusFd), and before it goes ends whatever the worker has left, also what
// went into a session of its own: it adopts all that loses its parent
// (PR_SET_CHILD_SUBREAPER). A kernel that kills or stops its parent meets the guard
// and not the command. On SIGTERM, when the command closes its end of kStatusFd, and
// when it dies, it ends the worker.
// It cannot end a child of the kernel that has killed the guard first.
#pragma once

#include <sys/types.h>

namespace attnfuzz::worker {

// argv[0] of a worker that is confined, and of its guard.
inline constexpr char kNoName[] = "main";

// `argv` of main(): PROGRAM LIBRARY KERNEL PARENT. Returns the exit status.
int guard(char** argv);
// The same for a worker that is this process's child already. Returns once all has ended.
void guard_child(pid_t worker);

}  // namespace attnfuzz::worker
