// System calls that no kernel needs in order to compute: a confined worker that makes one dies of SIGSYS.
//
// A call that is neither here nor allowed (sandbox/restrict_calls.cc) fails with ENOSYS: libraries that try it
// find another way.
#pragma once

#include <sys/syscall.h>

#include <cstdint>

namespace attnfuzz {

// The purpose for which a kernel could use the system call.
enum class Purpose : uint8_t { kProcess, kSignal, kMemory, kNetwork, kFile, kHandler, kPrivilege };

struct RefusedCall {
  int32_t number;
  const char* name;
  Purpose purpose;
};

inline constexpr RefusedCall kRefusedCalls[] = {
// Starting another process, or replacing this one.
#ifdef SYS_fork
    {SYS_fork, "fork", Purpose::kProcess},
    {SYS_vfork, "vfork", Purpose::kProcess},
#endif
    {SYS_clone, "clone", Purpose::kProcess},  // unless it starts a thread
    {SYS_execve, "execve", Purpose::kProcess},
    {SYS_execveat, "execveat", Purpose::kProcess},
    {SYS_setsid, "setsid", Purpose::kProcess},
    {SYS_setpgid, "setpgid", Purpose::kProcess},
    // Signalling another process.
    {SYS_kill, "kill", Purpose::kSignal},      // of another process
    {SYS_tgkill, "tgkill", Purpose::kSignal},  // likewise
    {SYS_tkill, "tkill", Purpose::kSignal},
    {SYS_rt_sigqueueinfo, "rt_sigqueueinfo", Purpose::kSignal},
    {SYS_rt_tgsigqueueinfo, "rt_tgsigqueueinfo", Purpose::kSignal},
    {SYS_pidfd_send_signal, "pidfd_send_signal", Purpose::kSignal},
    {SYS_prlimit64, "prlimit64", Purpose::kSignal},  // of another process: a limit of 0 s ends it
    // Reading or writing another process's memory.
    {SYS_ptrace, "ptrace", Purpose::kMemory},
    {SYS_process_vm_readv, "process_vm_readv", Purpose::kMemory},
    {SYS_process_vm_writev, "process_vm_writev", Purpose::kMemory},
    {SYS_pidfd_open, "pidfd_open", Purpose::kMemory},
    {438, "pidfd_getfd", Purpose::kMemory},
    {SYS_kcmp, "kcmp", Purpose::kMemory},  // of another process
    {440, "process_madvise", Purpose::kMemory},
    {SYS_userfaultfd, "userfaultfd", Purpose::kMemory},
    // Changing the arena's mapping: refused for an address inside the arena.
    {SYS_mmap, "mmap", Purpose::kMemory},
    {SYS_munmap, "munmap", Purpose::kMemory},
    {SYS_mprotect, "mprotect", Purpose::kMemory},
    {SYS_mremap, "mremap", Purpose::kMemory},
    {SYS_madvise, "madvise", Purpose::kMemory},
    {SYS_pkey_mprotect, "pkey_mprotect", Purpose::kMemory},
    {SYS_remap_file_pages, "remap_file_pages", Purpose::kMemory},
    // The network and other channels to processes.
    {SYS_socket, "socket", Purpose::kNetwork},
    {SYS_socketpair, "socketpair", Purpose::kNetwork},
    {SYS_connect, "connect", Purpose::kNetwork},
    {SYS_bind, "bind", Purpose::kNetwork},
    {SYS_listen, "listen", Purpose::kNetwork},
    {SYS_sendto, "sendto", Purpose::kNetwork},
    {SYS_sendmsg, "sendmsg", Purpose::kNetwork},
    {SYS_msgget, "msgget", Purpose::kNetwork},
    {SYS_shmget, "shmget", Purpose::kNetwork},
    {SYS_semget, "semget", Purpose::kNetwork},
    {SYS_mq_open, "mq_open", Purpose::kNetwork},
// Files.
#ifdef SYS_open
    {SYS_open, "open", Purpose::kFile},  // for writing, on the CPU
    {SYS_creat, "creat", Purpose::kFile},
    {SYS_unlink, "unlink", Purpose::kFile},
    {SYS_rename, "rename", Purpose::kFile},
    {SYS_mkdir, "mkdir", Purpose::kFile},
    {SYS_rmdir, "rmdir", Purpose::kFile},
    {SYS_link, "link", Purpose::kFile},
    {SYS_symlink, "symlink", Purpose::kFile},
    {SYS_chmod, "chmod", Purpose::kFile},
    {SYS_chown, "chown", Purpose::kFile},
#endif
    {SYS_openat, "openat", Purpose::kFile},  // for writing, on the CPU
    {SYS_openat2, "openat2", Purpose::kFile},
    {SYS_unlinkat, "unlinkat", Purpose::kFile},
    {SYS_renameat2, "renameat2", Purpose::kFile},
    {SYS_mkdirat, "mkdirat", Purpose::kFile},
    {SYS_linkat, "linkat", Purpose::kFile},
    {SYS_symlinkat, "symlinkat", Purpose::kFile},
    {SYS_mknodat, "mknodat", Purpose::kFile},
    {SYS_fchmod, "fchmod", Purpose::kFile},
    {SYS_fchmodat, "fchmodat", Purpose::kFile},
    {SYS_fchownat, "fchownat", Purpose::kFile},
    {SYS_truncate, "truncate", Purpose::kFile},
    {SYS_ftruncate, "ftruncate", Purpose::kFile},
    {SYS_fallocate, "fallocate", Purpose::kFile},
    // Handlers of crashes.
    {SYS_rt_sigaction, "sigaction", Purpose::kHandler},  // of a deadly signal
    // More rights.
    {SYS_prctl, "prctl", Purpose::kPrivilege},  // options that would undo the confinement
    {SYS_seccomp, "seccomp", Purpose::kPrivilege},
    {SYS_unshare, "unshare", Purpose::kPrivilege},
    {SYS_setns, "setns", Purpose::kPrivilege},
    {SYS_mount, "mount", Purpose::kPrivilege},
    {SYS_umount2, "umount2", Purpose::kPrivilege},
    {SYS_pivot_root, "pivot_root", Purpose::kPrivilege},
    {SYS_chroot, "chroot", Purpose::kPrivilege},
    {SYS_bpf, "bpf", Purpose::kPrivilege},
    {SYS_perf_event_open, "perf_event_open", Purpose::kPrivilege},
    {SYS_io_uring_setup, "io_uring_setup", Purpose::kPrivilege},
    {SYS_keyctl, "keyctl", Purpose::kPrivilege},
    {SYS_add_key, "add_key", Purpose::kPrivilege},
    {SYS_request_key, "request_key", Purpose::kPrivilege},
    {SYS_capset, "capset", Purpose::kPrivilege},
    {SYS_setuid, "setuid", Purpose::kPrivilege},
    {SYS_setgid, "setgid", Purpose::kPrivilege},
    {SYS_reboot, "reboot", Purpose::kPrivilege},
    {SYS_init_module, "init_module", Purpose::kPrivilege},
    {SYS_finit_module, "finit_module", Purpose::kPrivilege},
    {SYS_kexec_load, "kexec_load", Purpose::kPrivilege},
    {SYS_open_by_handle_at, "open_by_handle_at", Purpose::kPrivilege},
};

}  // namespace attnfuzz
