// Kernels that compute attention, so that they pass many cases before they misbehave.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/fuzz/fakes/fake.h"
#include "tests/properties/support/fake_target.h"

namespace {

using namespace attnfuzz;

template <Flaw flaw>
FakeTarget& attention() {
  static FakeTarget target(flaw);
  return target;
}

template <Flaw flaw>
attn_status plan_of(const attn_problem* p, const attn_tensors* t, const attn_env* env, attn_plan* plan,
                    char* reason, uint64_t n) {
  const PlanReply reply = attention<flaw>().plan(*p, *t, *env);
  snprintf(reason, n, "%s", reply.reason.c_str());
  if (reply.status == ATTN_OK) *plan = reply.plan;
  return reply.status;
}

template <Flaw flaw>
attn_status run_of(const attn_problem* p, const attn_tensors* t, const attn_plan* plan, const attn_env* env) {
  return attention<flaw>().run(Stage::kAll, *p, *t, *plan, *env, 0).status;
}
constexpr auto plan = plan_of<Flaw::kNone>;
constexpr auto run = run_of<Flaw::kNone>;

// True in the 60th call of this process. One case takes far fewer calls.
bool now() {
  static int calls = 0;
  return ++calls == 60;
}

// True in the first call of all processes. That call creates the file that $ATTNFUZZ_FAKE_ONCE names.
bool first_of_all() {
  const char* file = getenv("ATTNFUZZ_FAKE_ONCE");
  const int fd = file == nullptr ? -1 : open(file, O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

#define RUN \
  [](const attn_problem* p, const attn_tensors* t, const attn_plan* plan, const attn_env* env) -> attn_status

const attn_kernel kernels[] = {
    fake::kernel("right", plan, run),
    // P is divided by its sum and then rounded to the input's format (attn_p_order).
    fake::kernel("textbook", plan_of<Flaw::kTextbook>, run_of<Flaw::kTextbook>),
    fake::kernel("textbook-open", plan_of<Flaw::kTextbookOpen>, run_of<Flaw::kTextbookOpen>),
    fake::kernel("flushes-p", plan_of<Flaw::kFlushesP>, run_of<Flaw::kFlushesP>),
    fake::kernel(
        "crashes-once", plan,
        RUN {
          if (now()) raise(SIGSEGV);
          return run(p, t, plan, env);
        }),
    fake::kernel(
        "hangs-once", plan,
        RUN {
          volatile int spin = 1;
          while (now() || spin == 2) spin = 2;
          return run(p, t, plan, env);
        }),
    fake::kernel(
        "sleeps-once", plan,
        RUN {
          if (now()) sleep(100'000);
          return run(p, t, plan, env);
        }),
    fake::kernel(
        "stops-once", plan,
        RUN {
          if (now()) raise(SIGSTOP);
          return run(p, t, plan, env);
        }),
    // Ignores and blocks all signals that it can.
    fake::kernel(
        "ignores-signals-once", plan,
        RUN {
          if (now()) {
            sigset_t all;
            sigfillset(&all);
            sigprocmask(SIG_BLOCK, &all, nullptr);
            for (int n = 1; n < NSIG; ++n) signal(n, SIG_IGN);
            for (;;) pause();
          }
          return run(p, t, plan, env);
        }),
    fake::kernel(
        "kills-itself-once", plan,
        RUN {
          if (now() && first_of_all()) raise(SIGKILL);
          return run(p, t, plan, env);
        }),
    fake::kernel(
        "kills-parent", plan,
        RUN {
          if (p->seq_k % 16 == 1) {
            kill(getppid(), SIGKILL);
            for (;;) pause();
          }
          return run(p, t, plan, env);
        }),
    // Wrong numbers in calls without a softcap, after a call with one.
    fake::kernel(
        "keeps-softcap", plan,
        RUN {
          static bool kept = false;
          kept |= p->softcap > 0;
          const attn_status status = run(p, t, plan, env);
          if (kept && p->softcap == 0 && p->batch * p->heads_q * p->seq_q > 0)
            *static_cast<uint16_t*>(t->o.data) = 0x6400;
          return status;
        }),
    // Wrong numbers with many keys, a crash with a window.
    fake::kernel(
        "two-bugs", plan,
        RUN {
          if (p->window_left >= 0) abort();
          const attn_status status = run(p, t, plan, env);
          if (p->seq_k <= 16 || p->batch * p->heads_q * p->seq_q == 0) return status;
          uint16_t& first = *static_cast<uint16_t*>(t->o.data);
          if ((first & 0x7c00) != 0x7c00) first ^= 0x40;  // finite numbers stay finite
          return status;
        }),
    // Dies in the simple case by which a check asks for the tiles. Draws rarely have so many keys.
    fake::kernel(
        "dies-at-600-keys", plan,
        RUN {
          if (p->seq_k == 600) abort();
          return run(p, t, plan, env);
        }),
    // O is 1.5 times too large, within the bound of its loose plan.
    fake::kernel(
        "loose",
        [](const attn_problem* p, const attn_tensors* t, const attn_env* env, attn_plan* out, char* reason,
           uint64_t n) -> attn_status {
          const attn_status status = plan(p, t, env, out, reason, n);
          out->rescales = out->merges = int64_t{1} << 31;
          return status;
        },
        run),
};

}  // namespace

extern "C" ATTN_EXPORT const attn_kernel* attn_kernel_at(uint32_t index) {
  return index < sizeof kernels / sizeof kernels[0] ? &kernels[index] : nullptr;
}
