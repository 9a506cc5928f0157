// The process between the command and a worker: what a kernel does to its parent,
// or leaves behind, ends here.
//
// The command starts a supervisor. The supervisor starts the same program once more as the
// worker that loads the kernel, and tells the worker's process id and later how it ended
// (wire::kStatusFd). Before the supervisor ends, it ends whatever the worker has left, also
// processes in a session of their own: it adopts every process that loses its parent
// (PR_SET_CHILD_SUBREAPER). A kernel that kills or stops its parent meets the supervisor,
// not the command. On SIGTERM, when the command closes its end of kStatusFd, and
// when it dies, it ends the worker.
// It cannot end a child of the kernel that has killed the supervisor first.
#pragma once

#include <sys/types.h>

namespace attnfuzz::worker {

// argv[0] of a worker that is confined, and of its supervisor.
inline constexpr char kNoName[] = "main";

// `argv` of main(): PROGRAM LIBRARY KERNEL PARENT. Returns the exit status.
int supervise(char** argv);
// The same for a worker that is this process's child already. Returns once all has ended.
void supervise_child(pid_t worker);

}  // namespace attnfuzz::worker
