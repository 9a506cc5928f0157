// System calls that no kernel needs in order to compute: a confined worker that makes one dies of SIGSYS.
//
// What is neither here nor allowed (sandbox/restrict_calls.cc) fails with ENOSYS: libraries that try it
// find another way.
#pragma once

#include <sys/syscall.h>

#include <cstdint>

namespace attnfuzz {

// What a kernel that calls it was about.
enum class Aim : uint8_t { kProcess, kSignal, kMemory, kNetwork, kFile, kHandler, kPrivilege };

struct RefusedCall {
  int32_t number;
  const char* name;
  Aim aim;
};

inline constexpr RefusedCall kRefusedCalls[] = {
// Another process: begun, or this one replaced.
#ifdef SYS_fork
    {SYS_fork, "fork", Aim::kProcess},
    {SYS_vfork, "vfork", Aim::kProcess},
#endif
    {SYS_clone, "clone", Aim::kProcess},  // of what is no thread
    {SYS_execve, "execve", Aim::kProcess},
    {SYS_execveat, "execveat", Aim::kProcess},
    {SYS_setsid, "setsid", Aim::kProcess},
    {SYS_setpgid, "setpgid", Aim::kProcess},
    // Signalled.
    {SYS_kill, "kill", Aim::kSignal},      // of another process
    {SYS_tgkill, "tgkill", Aim::kSignal},  // likewise
    {SYS_tkill, "tkill", Aim::kSignal},
    {SYS_rt_sigqueueinfo, "rt_sigqueueinfo", Aim::kSignal},
    {SYS_rt_tgsigqueueinfo, "rt_tgsigqueueinfo", Aim::kSignal},
    {SYS_pidfd_send_signal, "pidfd_send_signal", Aim::kSignal},
    {SYS_prlimit64, "prlimit64", Aim::kSignal},  // of another process: a limit of 0 s ends it
    // Read and written.
    {SYS_ptrace, "ptrace", Aim::kMemory},
    {SYS_process_vm_readv, "process_vm_readv", Aim::kMemory},
    {SYS_process_vm_writev, "process_vm_writev", Aim::kMemory},
    {SYS_pidfd_open, "pidfd_open", Aim::kMemory},
    {438, "pidfd_getfd", Aim::kMemory},
    {SYS_kcmp, "kcmp", Aim::kMemory},  // of another process
    {440, "process_madvise", Aim::kMemory},
    {SYS_userfaultfd, "userfaultfd", Aim::kMemory},
    // The arena's own protection: in these with an address of it, from or to.
    {SYS_mmap, "mmap", Aim::kMemory},
    {SYS_munmap, "munmap", Aim::kMemory},
    {SYS_mprotect, "mprotect", Aim::kMemory},
    {SYS_mremap, "mremap", Aim::kMemory},
    {SYS_madvise, "madvise", Aim::kMemory},
    {SYS_pkey_mprotect, "pkey_mprotect", Aim::kMemory},
    {SYS_remap_file_pages, "remap_file_pages", Aim::kMemory},
    // The network, and whatever else listens.
    {SYS_socket, "socket", Aim::kNetwork},
    {SYS_socketpair, "socketpair", Aim::kNetwork},
    {SYS_connect, "connect", Aim::kNetwork},
    {SYS_bind, "bind", Aim::kNetwork},
    {SYS_listen, "listen", Aim::kNetwork},
    {SYS_sendto, "sendto", Aim::kNetwork},
    {SYS_sendmsg, "sendmsg", Aim::kNetwork},
    {SYS_msgget, "msgget", Aim::kNetwork},
    {SYS_shmget, "shmget", Aim::kNetwork},
    {SYS_semget, "semget", Aim::kNetwork},
    {SYS_mq_open, "mq_open", Aim::kNetwork},
// Files.
#ifdef SYS_open
    {SYS_open, "open", Aim::kFile},  // for writing, on the CPU
    {SYS_creat, "creat", Aim::kFile},
    {SYS_unlink, "unlink", Aim::kFile},
    {SYS_rename, "rename", Aim::kFile},
    {SYS_mkdir, "mkdir", Aim::kFile},
    {SYS_rmdir, "rmdir", Aim::kFile},
    {SYS_link, "link", Aim::kFile},
    {SYS_symlink, "symlink", Aim::kFile},
    {SYS_chmod, "chmod", Aim::kFile},
    {SYS_chown, "chown", Aim::kFile},
#endif
    {SYS_openat, "openat", Aim::kFile},  // for writing, on the CPU
    {SYS_openat2, "openat2", Aim::kFile},
    {SYS_unlinkat, "unlinkat", Aim::kFile},
    {SYS_renameat2, "renameat2", Aim::kFile},
    {SYS_mkdirat, "mkdirat", Aim::kFile},
    {SYS_linkat, "linkat", Aim::kFile},
    {SYS_symlinkat, "symlinkat", Aim::kFile},
    {SYS_mknodat, "mknodat", Aim::kFile},
    {SYS_fchmod, "fchmod", Aim::kFile},
    {SYS_fchmodat, "fchmodat", Aim::kFile},
    {SYS_fchownat, "fchownat", Aim::kFile},
    {SYS_truncate, "truncate", Aim::kFile},
    {SYS_ftruncate, "ftruncate", Aim::kFile},
    {SYS_fallocate, "fallocate", Aim::kFile},
    // What a crash does.
    {SYS_rt_sigaction, "sigaction", Aim::kHandler},  // of a deadly signal
    // More rights.
    {SYS_prctl, "prctl", Aim::kPrivilege},  // that would undo the confinement
    {SYS_seccomp, "seccomp", Aim::kPrivilege},
    {SYS_unshare, "unshare", Aim::kPrivilege},
    {SYS_setns, "setns", Aim::kPrivilege},
    {SYS_mount, "mount", Aim::kPrivilege},
    {SYS_umount2, "umount2", Aim::kPrivilege},
    {SYS_pivot_root, "pivot_root", Aim::kPrivilege},
    {SYS_chroot, "chroot", Aim::kPrivilege},
    {SYS_bpf, "bpf", Aim::kPrivilege},
    {SYS_perf_event_open, "perf_event_open", Aim::kPrivilege},
    {SYS_io_uring_setup, "io_uring_setup", Aim::kPrivilege},
    {SYS_keyctl, "keyctl", Aim::kPrivilege},
    {SYS_add_key, "add_key", Aim::kPrivilege},
    {SYS_request_key, "request_key", Aim::kPrivilege},
    {SYS_capset, "capset", Aim::kPrivilege},
    {SYS_setuid, "setuid", Aim::kPrivilege},
    {SYS_setgid, "setgid", Aim::kPrivilege},
    {SYS_reboot, "reboot", Aim::kPrivilege},
    {SYS_init_module, "init_module", Aim::kPrivilege},
    {SYS_finit_module, "finit_module", Aim::kPrivilege},
    {SYS_kexec_load, "kexec_load", Aim::kPrivilege},
    {SYS_open_by_handle_at, "open_by_handle_at", Aim::kPrivilege},
};

}  // namespace attnfuzz
