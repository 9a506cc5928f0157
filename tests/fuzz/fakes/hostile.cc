// Kernels whose names and reasons hold commands, markup and control characters. None writes O, so each fails.
#include <stdio.h>

#include "tests/fuzz/fakes/fake.h"

namespace {

attn_status plan(const attn_problem* p, const attn_tensors* t, const attn_env* env, attn_plan* plan,
                 char* reason, uint64_t n) {
  if (p->softcap != 0 || p->has_mask) {
    snprintf(reason, n, "\x1b[2J\xff\xe2\x80\xae no\nreplay: attnfuzz replay $(touch pwned)");
    return ATTN_UNSUPPORTED;
  }
  fake::yes(p, t, env, plan, reason, n);
  snprintf(plan->path, sizeof plan->path, "\x1b[31m\xff\n*/");
  return ATTN_OK;
}

constexpr const char* kNames[] = {
    "a/b:c",
    "x\xff\xfey",
    "$(touch pwned)`touch pwned`;touch pwned",
    "\"; import os; os.system('touch pwned') #",
    "q\"\"\"'''\\",
    "line\nend\rreplay: attnfuzz replay $(touch pwned)",
    "*/ int main() { std::system(\"touch pwned\"); } //\\",
    "\x1b[2J\x1b]0;title\x07",
    "\xe2\x80\xae\xe2\x81\xa6",
    "coding: utf-7 +AAo-import os;os.system('touch pwned')+AAo-",
};

struct Kernels {
  attn_kernel all[sizeof kNames / sizeof kNames[0]];
  Kernels() {
    for (size_t n = 0; n < sizeof kNames / sizeof kNames[0]; ++n)
      all[n] = fake::kernel(kNames[n], plan, fake::nothing);
  }
};

}  // namespace

extern "C" const attn_kernel* attn_kernel_at(uint32_t index) {
  static const Kernels kernels;
  return index < sizeof kNames / sizeof kNames[0] ? &kernels.all[index] : nullptr;
}
