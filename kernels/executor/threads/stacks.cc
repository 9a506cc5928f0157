#include "kernels/executor/threads/stacks.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <vector>

#include "kernels/executor/threads/sanitizer.h"

namespace simt {
namespace {

constexpr size_t kStackBytes = 128 * 1024;
constexpr size_t kGuardBytes = 4096;
constexpr size_t kColours = 32;

std::vector<Stack>& stacks() {
  static std::vector<Stack> all;
  return all;
}

Stack map_stack(size_t index) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t guard = kGuardBytes < page ? page : kGuardBytes;
  void* memory = mmap(nullptr, guard + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, guard, PROT_NONE) != 0) {
    perror("simt: cannot map a thread's stack");
    abort();
  }
  // The tops of stacks differ in the low bits, so that the hot frames of a warp's lanes do not share cache
  // sets.
  const size_t colour = (index % kColours) * 128;
  return {static_cast<char*>(memory) + guard, kStackBytes - colour};
}

void (*overflow_entry)(size_t) = nullptr;
struct sigaction previous_action;

bool find_guard(const char* address, size_t* index) {
  const std::vector<Stack>& all = stacks();
  for (size_t i = 0; i < all.size(); ++i) {
    if (address < all[i].bottom && address >= all[i].bottom - kGuardBytes) {
      *index = i;
      return true;
    }
  }
  return false;
}

void on_segv(int signal, siginfo_t* info, void* context) {
  if (recover_stack_overflow(info, context)) return;
  if (previous_action.sa_flags & SA_SIGINFO) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler == SIG_DFL || previous_action.sa_handler == SIG_IGN) {
    // The faulting instruction runs again and ends the process, as without our handler.
    sigaction(signal, &previous_action, nullptr);
  } else {
    previous_action.sa_handler(signal);
  }
}

}  // namespace

Stack stack_at(size_t index) {
  std::vector<Stack>& all = stacks();
  while (all.size() <= index) all.push_back(map_stack(all.size()));
  return all[index];
}

bool recover_stack_overflow(void* siginfo, void* ucontext) {
  size_t index = 0;
  if (!overflow_entry ||
      !find_guard(static_cast<const char*>(static_cast<siginfo_t*>(siginfo)->si_addr), &index)) {
    return false;
  }
  // The content of the stack is discarded, so on_overflow() can run from its top.
  auto& machine = static_cast<ucontext_t*>(ucontext)->uc_mcontext;
  const uintptr_t top = reinterpret_cast<uintptr_t>(stacks()[index].top()) & ~uintptr_t{15};
#if defined(__x86_64__)
  machine.gregs[REG_RSP] = static_cast<greg_t>(top - 136);  // 8 mod 16, as after a call
  machine.gregs[REG_RIP] = static_cast<greg_t>(reinterpret_cast<uintptr_t>(overflow_entry));
  machine.gregs[REG_RDI] = static_cast<greg_t>(index);
  return true;
#elif defined(__aarch64__)
  machine.sp = top - 128;
  machine.pc = reinterpret_cast<uintptr_t>(overflow_entry);
  machine.regs[0] = index;
  return true;
#else
  (void)machine, (void)top;
  return false;
#endif
}

void watch_stacks(void (*on_overflow)(size_t)) {
  if (overflow_entry) return;
  overflow_entry = on_overflow;
  stack_t current;
  if (sigaltstack(nullptr, &current) == 0 && (current.ss_flags & SS_DISABLE)) {
    static char alternate[64 * 1024];
    stack_t handler_stack{};
    handler_stack.ss_sp = alternate;
    handler_stack.ss_size = sizeof alternate;
    sanitizer::enter(&handler_stack, sizeof handler_stack);
    sigaltstack(&handler_stack, nullptr);
  }
  struct sigaction action{};
  action.sa_sigaction = on_segv;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sanitizer::enter(&action, sizeof action);
  sigaction(SIGSEGV, &action, &previous_action);
}

}  // namespace simt
