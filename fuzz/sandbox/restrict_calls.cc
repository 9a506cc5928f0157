// Two seccomp filters, made with libseccomp. The stricter answer counts. One filter traps system
// calls that computing never needs: they raise SIGSYS, which crash.cc records. The other is for
// CPU kernels only. It allows the calls that computing needs, and all others fail with ENOSYS.
#include "fuzz/sandbox/confine.h"

#ifdef ATTNFUZZ_HAVE_SECCOMP

#include <fcntl.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>
#include <memory>

#include "fuzz/host/refused_calls.h"
#include "fuzz/host/wire.h"

namespace attnfuzz::worker {
namespace {

using Filter = std::unique_ptr<void, void (*)(scmp_filter_ctx)>;

Filter filter(uint32_t otherwise) { return {seccomp_init(otherwise), seccomp_release}; }

// Keeps the first error, so that the caller checks once after adding many rules.
struct Rules {
  scmp_filter_ctx filter;
  int failed = 0;

  void add(uint32_t action, int call, std::initializer_list<scmp_arg_cmp> when = {}) {
    const int result = seccomp_rule_add_array(filter, action, call, static_cast<unsigned>(when.size()),
                                              when.size() == 0 ? nullptr : std::data(when));
    // EDOM: this architecture has no such call.
    if (result != 0 && result != -EDOM && failed == 0) failed = result;
  }
  int load() {
    if (failed == 0) failed = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    if (failed == 0) failed = seccomp_load(filter);
    return failed;
  }
};

scmp_arg_cmp arg(unsigned number, scmp_compare compare, uint64_t a, uint64_t b = 0) {
  return {number, compare, a, b};
}

constexpr uint32_t kTrap = SCMP_ACT_TRAP;

// Traps the call if its address lies in the arena, or if its length could reach the arena from
// below.
void trap_in_arena(Rules& rules, int call, const Arena& arena) {
  const auto base = reinterpret_cast<uint64_t>(arena.base());
  constexpr uint64_t kRegion = ~(Arena::kFence - 1);
  rules.add(kTrap, call, {arg(0, SCMP_CMP_MASKED_EQ, kRegion, base & kRegion)});
  rules.add(kTrap, call, {arg(1, SCMP_CMP_GE, Arena::kFenceBefore)});
  if (call != SYS_mremap) return;
  // The new address and the new length have the same limits.
  const auto fixed = arg(3, SCMP_CMP_MASKED_EQ, MREMAP_FIXED, MREMAP_FIXED);
  rules.add(kTrap, call, {fixed, arg(4, SCMP_CMP_MASKED_EQ, kRegion, base & kRegion)});
  rules.add(kTrap, call, {fixed, arg(2, SCMP_CMP_GE, Arena::kFenceBefore)});
}

void trap_opening(Rules& rules, int call, unsigned flags) {
  rules.add(kTrap, call, {arg(flags, SCMP_CMP_MASKED_EQ, O_ACCMODE, O_WRONLY)});
  rules.add(kTrap, call, {arg(flags, SCMP_CMP_MASKED_EQ, O_ACCMODE, O_RDWR)});
}

void trap(Rules& rules, const Confined& with, bool device, const Arena& arena) {
  const auto self = static_cast<uint64_t>(getpid());
  for (const RefusedCall& call : kRefusedCalls) {
    switch (call.number) {
      case SYS_clone:
        rules.add(kTrap, call.number, {arg(0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)});
        break;
      case SYS_kill:
      case SYS_tgkill:
        rules.add(kTrap, call.number, {arg(0, SCMP_CMP_NE, self)});
        break;
      case SYS_kcmp:  // serve.cc compares its own descriptors
        for (const unsigned process : {0u, 1u})
          rules.add(kTrap, call.number, {arg(process, SCMP_CMP_NE, self)});
        break;
      case SYS_prlimit64:
        rules.add(kTrap, call.number, {arg(0, SCMP_CMP_NE, 0)});
        break;
      case SYS_mmap:
      case SYS_munmap:
      case SYS_mprotect:
      case SYS_mremap:
      case SYS_madvise:
      case SYS_pkey_mprotect:
        if (!device) trap_in_arena(rules, call.number, arena);
        break;
      case SYS_rt_sigaction:
        for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, wire::kWhereSignal})
          rules.add(kTrap, call.number,
                    {arg(0, SCMP_CMP_EQ, static_cast<uint64_t>(signal)),
                     arg(1, SCMP_CMP_NE, reinterpret_cast<uint64_t>(default_action()))});
        break;
      case SYS_prctl:
        for (const int option : {PR_SET_DUMPABLE, PR_SET_PDEATHSIG, PR_SET_PTRACER, PR_SET_CHILD_SUBREAPER,
                                 PR_SET_SECCOMP, PR_SET_MM})
          rules.add(kTrap, call.number, {arg(0, SCMP_CMP_EQ, static_cast<uint64_t>(option))});
        break;
#ifdef SYS_open
      case SYS_open:
        if (!device && !with.interpreter) trap_opening(rules, call.number, 1);
        break;
#endif
      case SYS_openat:
        if (!device && !with.interpreter) trap_opening(rules, call.number, 2);
        break;
      default:
        // A driver and an interpreter also try files that they do not need. Landlock protects the files.
        if ((device || with.interpreter) && call.purpose == Purpose::kFile) break;
        if (device && call.purpose == Purpose::kNetwork) {
          // A driver talks to its daemons only by sockets of this machine.
          if (call.number == SYS_socket)
            for (const int family : {AF_INET, AF_INET6, AF_PACKET, AF_VSOCK})
              rules.add(kTrap, call.number, {arg(0, SCMP_CMP_EQ, static_cast<uint64_t>(family))});
          break;
        }
        rules.add(kTrap, call.number);
    }
  }
  // The flags of clone3() lie in memory, which a filter cannot read. After ENOSYS, the C library
  // uses clone().
  rules.add(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3));
}

// System calls that a confined kernel of the CPU may make whatever their arguments are.
// clang-format off
constexpr int kLetThrough[] = {
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(pread64),
    SCMP_SYS(pwrite64), SCMP_SYS(close), SCMP_SYS(lseek), SCMP_SYS(fstat), SCMP_SYS(stat), SCMP_SYS(lstat),
    SCMP_SYS(newfstatat), SCMP_SYS(statx), SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2),
    SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(getdents64), SCMP_SYS(getcwd), SCMP_SYS(statfs),
    SCMP_SYS(fstatfs), SCMP_SYS(dup), SCMP_SYS(dup2), SCMP_SYS(dup3), SCMP_SYS(pipe), SCMP_SYS(pipe2),
    SCMP_SYS(eventfd2), SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(select), SCMP_SYS(pselect6),
    SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mprotect), SCMP_SYS(mremap), SCMP_SYS(madvise),
    SCMP_SYS(mincore), SCMP_SYS(brk), SCMP_SYS(get_mempolicy), SCMP_SYS(membarrier), SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigpending), SCMP_SYS(rt_sigtimedwait),
    SCMP_SYS(rt_sigsuspend), SCMP_SYS(sigaltstack), SCMP_SYS(pause), SCMP_SYS(kill), SCMP_SYS(tgkill),
    SCMP_SYS(alarm), SCMP_SYS(setitimer), SCMP_SYS(getitimer), SCMP_SYS(clone), SCMP_SYS(set_robust_list),
    SCMP_SYS(get_robust_list), SCMP_SYS(rseq), SCMP_SYS(set_tid_address), SCMP_SYS(futex),
    SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(sched_getparam),
    SCMP_SYS(sched_getscheduler), SCMP_SYS(sched_get_priority_max), SCMP_SYS(sched_get_priority_min),
    SCMP_SYS(getcpu), SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep), SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(times), SCMP_SYS(getrandom),
    SCMP_SYS(getpid), SCMP_SYS(getppid), SCMP_SYS(gettid), SCMP_SYS(getpgrp), SCMP_SYS(getpgid),
    SCMP_SYS(getsid), SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid),
    SCMP_SYS(getrusage), SCMP_SYS(getrlimit), SCMP_SYS(prlimit64), SCMP_SYS(uname), SCMP_SYS(sysinfo),
    SCMP_SYS(prctl), SCMP_SYS(arch_prctl), SCMP_SYS(restart_syscall), SCMP_SYS(exit), SCMP_SYS(exit_group),
};
// clang-format on

void let_through(Rules& rules, const Confined& with) {
  for (const int call : kLetThrough) rules.add(SCMP_ACT_ALLOW, call);
  if (with.interpreter) {
    for (const int call : {SCMP_SYS(readlink), SCMP_SYS(readlinkat)}) rules.add(SCMP_ACT_ALLOW, call);
    // TCGETS shows whether a file is a terminal. FIOCLEX closes it when another program is executed.
    for (const uint64_t request : {TCGETS, FIOCLEX})
      rules.add(SCMP_ACT_ALLOW, SCMP_SYS(ioctl), {arg(1, SCMP_CMP_EQ, request)});
  }
  rules.add(SCMP_ACT_ALLOW, SCMP_SYS(kcmp));  // the other filter traps it for other processes
  // Its own affinity, not another process's.
  rules.add(SCMP_ACT_ALLOW, SCMP_SYS(sched_setaffinity), {arg(0, SCMP_CMP_EQ, 0)});
  // F_SETFL is not allowed: a bell shares its flags with the parent's descriptor, which must stay
  // non-blocking.
  for (const int command : {F_GETFD, F_SETFD, F_GETFL, F_DUPFD, F_DUPFD_CLOEXEC})
    rules.add(SCMP_ACT_ALLOW, SCMP_SYS(fcntl), {arg(1, SCMP_CMP_EQ, static_cast<uint64_t>(command))});
}

}  // namespace

std::optional<std::string> restrict_calls(const Confined& with, attn_backend backend, const Arena& arena) {
  const bool device = backend == ATTN_CUDA;
  const Filter traps = filter(SCMP_ACT_ALLOW), list = filter(SCMP_ACT_ERRNO(ENOSYS));
  if (!traps || !list) return "seccomp: no memory";
  Rules trapping = {traps.get()}, letting = {list.get()};
  trap(trapping, with, device, arena);
  let_through(letting, with);
  int failed = 0;
  if (!device) {
    // The trapping filter is loaded after this one. Loading it needs seccomp(), which it then traps.
    letting.add(SCMP_ACT_ALLOW, SCMP_SYS(seccomp));
    failed = letting.load();
  }
  if (failed == 0) failed = trapping.load();
  if (failed != 0) return std::string("seccomp refuses: ") + strerror(-failed);
  return std::nullopt;
}

}  // namespace attnfuzz::worker

#else

namespace attnfuzz::worker {

std::optional<std::string> restrict_calls(const Confined&, attn_backend, const Arena&) {
  return "it was built without libseccomp";
}

}  // namespace attnfuzz::worker

#endif
