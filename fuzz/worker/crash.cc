#include "fuzz/worker/crash.h"

#include <ucontext.h>

#include <csignal>
#include <cstddef>

namespace attnfuzz::worker {
namespace {

// The handler's only way to what it writes.
wire::Crash* record = nullptr;
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

void on_signal(int signal, siginfo_t* info, void* context) {
  if (record->signal == 0) {
    record->code = info->si_code;
    record->address = reinterpret_cast<uint64_t>(info->si_addr);
    record->pc = program_counter(context);
    record->signal = signal;
  }
  // Whoever comes back here runs the instruction again, now to its end.
  std::signal(signal, SIG_DFL);
  if (info->si_code <= 0) raise(signal);  // sent, not caused: nothing would happen again
}

}  // namespace

void record_crashes(wire::Crash* where) {
  record = where;
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace attnfuzz::worker
