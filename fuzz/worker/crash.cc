#include "fuzz/worker/crash.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>

namespace attnfuzz::worker {
namespace {

// The handlers take no argument of ours, so these globals tell them where to write.
wire::Crash* record = nullptr;
wire::Samples* samples = nullptr;
alignas(16) char stack[64 * 1024];

uint64_t program_counter(void* context) {
  [[maybe_unused]] const auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<uint64_t>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return machine.pc;
#else
  return 0;
#endif
}

// True for modules that a crash is not attributed to: the C library, other runtimes and the drivers. (visit()
// skips this program and its executor in the same way.) The module that called them is to blame.
bool is_runtime(const char* module) {
  for (const char* begin : {"libc.", "libc-", "libm.", "libm-", "libpthread", "ld-linux", "libstdc++",
                            "libgcc_s", "libcuda", "libcudart", "libnvidia", "linux-vdso"}) {
    if (std::strncmp(module, begin, std::strlen(begin)) == 0) return true;
  }
  return false;
}

// The address at which this program itself was loaded.
void* own_base = nullptr;

struct Walk {
  wire::Site& site;
  uint64_t from;  // the interrupted instruction; the handler's own frames lie before it
  bool begun = false;
};

// Takes the first frame. If it belongs to the runtime, the walk goes on to the first frame that does not, and
// takes that instead.
_Unwind_Reason_Code visit(_Unwind_Context* context, void* argument) {
  Walk& walk = *static_cast<Walk*>(argument);
  const uint64_t pc = _Unwind_GetIP(context);
  walk.begun |= pc == walk.from;
  Dl_info info;
  if (!walk.begun || dladdr(reinterpret_cast<void*>(pc), &info) == 0 || info.dli_fname == nullptr)
    return _URC_NO_REASON;
  const char* slash = std::strrchr(info.dli_fname, '/');
  const char* module = slash ? slash + 1 : info.dli_fname;
  const bool runtime = info.dli_fbase == own_base || is_runtime(module);
  if (runtime && walk.site.module[0] != 0) return _URC_NO_REASON;
  const auto base = reinterpret_cast<uint64_t>(info.dli_fbase);
  walk.site.offset = pc - base;
  walk.site.function = _Unwind_GetRegionStart(context) - base;
  std::strncpy(walk.site.module, module, sizeof walk.site.module - 1);
  return runtime ? _URC_NO_REASON : _URC_END_OF_STACK;
}

void find_site(void* context, wire::Site& site) {
  Walk walk = {site, program_counter(context)};
  _Unwind_Backtrace(visit, &walk);
}

// The default action, in the layout that the Linux system call expects: no handler, no flags, no mask.
alignas(16) constexpr unsigned char kDefaultAction[64] = {};

void by_default(int signal) { syscall(SYS_rt_sigaction, signal, kDefaultAction, nullptr, 8); }

void on_signal(int signal, siginfo_t* info, void* context) {
  if (record->signal == 0) {
    record->code = info->si_code;
    record->call = signal == SIGSYS ? info->si_syscall : 0;
    record->address = reinterpret_cast<uint64_t>(info->si_addr);
    record->pc = program_counter(context);
    record->signal = signal;
    // This comes last: if the stack is destroyed, walking it ends the process here, by the same signal or by
    // SIGSEGV.
    find_site(context, record->site);
  }
  // When this handler returns, the faulting instruction runs again, and now the default action ends the
  // process.
  by_default(signal);
  // If the signal was sent by a process, or belongs to a skipped system call, running on would not raise it
  // again. So raise it here.
  if (info->si_code <= 0 || signal == SIGSYS) raise(signal);
}

void on_question(int, siginfo_t*, void* context) {
  const int error = errno;
  const uint32_t n = samples->taken.load(std::memory_order_relaxed);
  if (n < wire::kMostSamples) {
    find_site(context, samples->site[n]);
    samples->taken.store(n + 1, std::memory_order_release);
  }
  errno = error;
}

void handle(int signal, void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action = {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | flags;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void record_crashes(wire::Crash* where, wire::Samples* stuck) {
  record = where;
  samples = stuck;
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&on_signal), &self) != 0) own_base = self.dli_fbase;
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
    handle(signal, on_signal, 0);
  handle(wire::kWhereSignal, on_question, SA_RESTART);
}

const void* default_action() { return kDefaultAction; }

}  // namespace attnfuzz::worker
