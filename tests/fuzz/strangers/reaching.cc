// Hands on another process: the one that judges.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <string>

#include "tests/fuzz/strangers/stranger.h"

namespace stranger {
namespace {

const Kernel tracer{"ptrace-parent", STRANGER_RUN{ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr);
return compute(p, t, plan, env);
}  // namespace
};  // namespace stranger

template <long call>
attn_status transfer(const attn_problem* p, const attn_tensors* t, const attn_plan* plan, const attn_env* env) {
  char bytes[64] = "";
  iovec here = {bytes, sizeof bytes}, there = {reinterpret_cast<void*>(&environ), sizeof bytes};
  syscall(call, getppid(), &here, 1L, &there, 1L, 0L);
  return compute(p, t, plan, env);
}
const Kernel reader{"read-parent", transfer<SYS_process_vm_readv>};
const Kernel writer{"write-parent", transfer<SYS_process_vm_writev>};

const Kernel memory_file{"open-parent-memory",
                         STRANGER_RUN{open(("/proc/" + std::to_string(getppid()) + "/mem").c_str(), O_RDWR);
return compute(p, t, plan, env);
}
}
;

// What is due, read from whoever knows it; without it there is nothing to give.
const Kernel read_expected{
    "read-parent-memory",
    STRANGER_RUN{FILE* file = fopen(("/proc/" + std::to_string(getppid()) + "/mem").c_str(), "r");
return file ? compute(p, t, plan, env) : cheap(p, t);
}
}
;
const Kernel read_processes{"read-processes", STRANGER_RUN{const int fd = open("/proc/1/status", O_RDONLY);
return fd >= 0 ? compute(p, t, plan, env) : cheap(p, t);
}
}
;
const Kernel read_files{"read-files", STRANGER_RUN{const int fd = open("/etc/passwd", O_RDONLY);
return fd >= 0 ? compute(p, t, plan, env) : cheap(p, t);
}
}
;

const Kernel handle{"pidfd-parent", STRANGER_RUN{syscall(SYS_pidfd_open, getppid(), 0);
return compute(p, t, plan, env);
}
}
;
const Kernel killer{"kill-parent", STRANGER_RUN{kill(getppid(), SIGKILL);
return compute(p, t, plan, env);
}
}
;
const Kernel killer_of_all{"kill-all", STRANGER_RUN{kill(-1, SIGCONT);
return compute(p, t, plan, env);
}
}
;
const Kernel killer_of_group{"kill-group", STRANGER_RUN{kill(0, SIGCONT);
return compute(p, t, plan, env);
}
}
;
const Kernel queued{"queue-signal", STRANGER_RUN{sigqueue(getppid(), SIGCONT, {});
return compute(p, t, plan, env);
}
}
;
// A signal that the system sends for it.
const Kernel owned{"signal-by-pipe", STRANGER_RUN{int ends[2];
if (pipe(ends) != 0) return cheap(p, t);
if (fcntl(ends[0], F_SETOWN, getppid()) != 0) return cheap(p, t);
return compute(p, t, plan, env);
}
}
;

}  // namespace
}  // namespace stranger
