// Stacks for fibers: mapped once, kept for the life of the process, each with a guard page below. If a thread
// runs into its guard page, `on_overflow` runs instead of ending the process (Linux, x86-64 and AArch64).
#pragma once

#include <stddef.h>

namespace simt {

struct Stack {
  char* bottom;  // lowest usable byte
  size_t size;
  char* top() const { return bottom + size; }
};

// The index-th stack. Aborts if the memory cannot be mapped.
Stack stack_at(size_t index);

// Installs the handler once. After an overflow, `on_overflow(index)` runs on the same stack, from its top. It
// must not return.
void watch_stacks(void (*on_overflow)(size_t index));
// Installs the handler now, with the executor's own on_overflow. It is for a program that soon may no longer
// install a handler.
__attribute__((visibility("default"))) void watch_threads();

// For a program with a SIGSEGV handler of its own: true if the fault was in a guard page; the program's handler must
// then simply return.
__attribute__((visibility("default"))) bool recover_stack_overflow(void* siginfo, void* ucontext);

}  // namespace simt
