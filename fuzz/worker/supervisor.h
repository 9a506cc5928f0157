// The process between the command and a worker. A kernel that harms its parent process harms only the
// supervisor, which also ends the processes that a kernel leaves behind.
//
// The command starts a supervisor. The supervisor starts the same program once more as the worker
// that loads the kernel. It reports the worker's process id, and later how the worker ended
// (wire::kStatusFd). Before the supervisor ends, it ends all processes that the worker has left,
// including those in a session of their own: it adopts every process that loses its parent
// (PR_SET_CHILD_SUBREAPER). A kernel that kills or stops its parent meets the supervisor, not the
// command. The worker ends when the supervisor gets SIGTERM, when the command closes its end of
// kStatusFd, and when the supervisor dies. If a kernel's child kills the supervisor first, the
// child survives.
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
