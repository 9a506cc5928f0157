#include "kernels/executor/threads/switch.h"

#ifdef __x86_64__
// simt_switch_context(rdi: from, rsi: to). Saves the registers that a callee must preserve.
asm(R"(
.text
.globl simt_switch_context
.hidden simt_switch_context
.type simt_switch_context, @function
.p2align 4
simt_switch_context:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size simt_switch_context, . - simt_switch_context
)");
#endif
