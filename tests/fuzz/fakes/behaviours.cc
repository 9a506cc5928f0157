// Kernels that behave well, and kernels that misbehave in many ways.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

#include "tests/fuzz/fakes/fake.h"

namespace {

using fake::nothing;
using fake::yes;

#define RUN \
  [](const attn_problem* p, const attn_tensors* t, const attn_plan* plan, const attn_env* env) -> attn_status
#define PLAN                                                                                           \
  [](const attn_problem* p, const attn_tensors* t, const attn_env* env, attn_plan* plan, char* reason, \
     uint64_t n) -> attn_status
#define UNUSED (void)p, (void)t, (void)plan, (void)env

void report(const attn_env* env, int32_t kind, const char* message) {
  attn_report r = {};
  r.size = sizeof r;
  r.kind = kind;
  r.block[1] = 7;
  r.thread[0] = 31;
  r.message = message;
  r.file = "some.cu";
  r.line = 12;
  r.shared_bytes = 120'000;
  env->report(env->user, &r);
}

volatile int sink;

const attn_kernel kernels[] = {
    // O = Q, for dense tensors of one shape.
    fake::kernel(
        "copy", yes,
        RUN {
          UNUSED;
          const int64_t n = p->batch * p->heads_q * p->seq_q * p->dim_qk;
          std::memcpy(t->o.data, t->q.data, static_cast<size_t>(n) * 2);
          return ATTN_OK;
        }),
    fake::kernel(
        "refuse",
        PLAN {
          (void)p, (void)t, (void)env, (void)plan;
          snprintf(reason, n, "no such head dimension");
          return ATTN_UNSUPPORTED;
        },
        nothing),
    fake::kernel(
        "null", yes,
        RUN {
          UNUSED;
          *reinterpret_cast<volatile int*>(static_cast<uintptr_t>(sink)) = 1;
          return ATTN_OK;
        }),
    fake::kernel(
        "misaligned", yes,
        RUN {
          UNUSED;
          using Chunk = float __attribute__((vector_size(16)));
          *reinterpret_cast<volatile Chunk*>(static_cast<char*>(t->o.data) + 2) = Chunk{};
          return ATTN_OK;
        }),
    fake::kernel(
        "overrun", yes,
        RUN {
          UNUSED;
          static_cast<volatile char*>(t->o.data)[0] = 1;
          return ATTN_OK;
        }),
    fake::kernel(
        "crash-plan",
        PLAN {
          (void)p, (void)t, (void)env, (void)plan, (void)reason, (void)n;
          raise(SIGSEGV);
          return ATTN_OK;
        },
        nothing),
    fake::kernel(
        "hang-plan",
        PLAN {
          (void)p, (void)t, (void)env, (void)plan, (void)reason, (void)n;
          for (;;) pause();
        },
        nothing),
    fake::kernel(
        "hang", yes,
        RUN {
          UNUSED;
          for (;;) sink = 1;
        }),
    // Hangs with all signals blocked.
    fake::kernel(
        "deaf", yes,
        RUN {
          UNUSED;
          sigset_t all;
          sigfillset(&all);
          sigprocmask(SIG_BLOCK, &all, nullptr);
          for (;;) sink = 1;
        }),
    // Looks like a worker that waits for a processor: much wall-clock time, little processor time.
    fake::kernel(
        "nap", yes,
        RUN {
          UNUSED;
          usleep(700'000);
          return ATTN_OK;
        }),
    // Uses much processor time, but ends.
    fake::kernel(
        "burn", yes,
        RUN {
          UNUSED;
          const clock_t end = clock() + CLOCKS_PER_SEC * 4 / 10;
          while (clock() < end) sink = 1;
          return ATTN_OK;
        }),
    // Its child, which holds every descriptor, outlives it.
    fake::kernel(
        "fork-hang", yes,
        RUN {
          UNUSED;
          if (fork() == 0) {
            for (;;) pause();
          }
          abort();
        }),
    fake::kernel(
        "kill-parent", yes,
        RUN {
          UNUSED;
          kill(getppid(), SIGKILL);
          for (;;) pause();
        }),
    fake::kernel(
        "stop-parent", yes,
        RUN {
          UNUSED;
          kill(getppid(), SIGSTOP);
          return ATTN_OK;
        }),
    // Starts a grandchild in another session, and returns its process id.
    fake::kernel(
        "daemon", yes,
        RUN {
          UNUSED;
          auto* const who = static_cast<volatile pid_t*>(t->o.data);
          if (fork() == 0) {
            setsid();
            if (fork() != 0) _exit(0);
            for (*who = getpid();;) pause();
          }
          while (*who == 0) usleep(1000);
          return ATTN_OK;
        }),
    fake::kernel(
        "exit", yes,
        RUN {
          UNUSED;
          exit(3);
        }),
    fake::kernel(
        "abort", yes,
        RUN {
          UNUSED;
          fprintf(stderr, "terminate called: the heap is gone\n");
          abort();
        }),
    fake::kernel(
        "report", yes,
        RUN {
          UNUSED;
          report(env, ATTN_REPORT_DIVERGENCE, "the first");
          report(env, ATTN_REPORT_DEADLOCK, "the second");
          return ATTN_FAULT;
        }),
    // Reports an error and exits, like host code that checks cudaGetLastError().
    fake::kernel(
        "report-exit", yes,
        RUN {
          UNUSED;
          report(env, ATTN_REPORT_ASYNC, "nobody waited for a copy");
          _exit(1);
        }),
    fake::kernel(
        "odd-report", yes,
        RUN {
          UNUSED;
          static char long_text[100000];
          std::memset(long_text, 'x', sizeof long_text - 1);
          report(env, 77, long_text);
          return ATTN_OK;
        }),
    fake::kernel(
        "odd-status", yes,
        RUN {
          UNUSED;
          return static_cast<attn_status>(1234);
        }),
    fake::kernel(
        "odd-plan",
        PLAN {
          (void)p, (void)t, (void)env, (void)reason, (void)n;
          std::memset(static_cast<void*>(plan), 0xff, sizeof *plan);
          plan->size = sizeof *plan;
          return ATTN_OK;
        },
        nothing),
    fake::kernel(
        "no-tiles",
        PLAN {
          const attn_status status = yes(p, t, env, plan, reason, n);
          plan->tile_q = 0;
          return status;
        },
        nothing),
    fake::kernel(
        "close", yes,
        RUN {
          UNUSED;
          for (int fd = 0; fd < 100; ++fd) close(fd);
          return ATTN_OK;
        }),
    fake::kernel(
        "scribble", yes,
        RUN {
          UNUSED;
          FILE* maps = fopen("/proc/self/maps", "r");
          char line[512];
          while (fgets(line, sizeof line, maps)) {
            unsigned long long begin = 0, end = 0;
            if (!strstr(line, "attnfuzz-wire") || sscanf(line, "%llx-%llx", &begin, &end) != 2) continue;
            std::memset(reinterpret_cast<void*>(begin), 0xff, end - begin);
          }
          fclose(maps);
          return ATTN_OK;
        }),
    fake::kernel(
        "print", yes,
        RUN {
          UNUSED;
          for (;;) printf("over and over and over and over and over and over again\n");
        }),
    fake::kernel(
        "count", yes,
        RUN {
          UNUSED;
          static int calls = 0;
          *static_cast<int*>(t->o.data) = ++calls;
          return ATTN_OK;
        }),
    // Returns ATTN_OK without computing anything.
    fake::kernel("idle", yes, nothing),
    // Each variant has a plan of its own. The second is refused, and the third kills the worker.
    fake::kernel(
        "variants",
        PLAN {
          const attn_status status = yes(p, t, env, plan, reason, n);
          snprintf(plan->path, sizeof plan->path, "variant %d", env->variant);
          if (env->variant == 3) abort();
          if (env->variant == 2) snprintf(reason, n, "not in this variant");
          return env->variant == 2 ? ATTN_UNSUPPORTED : status;
        },
        nothing),
    // plan() refuses every second call.
    fake::kernel(
        "refuse-by-turns",
        PLAN {
          static int asked = 0;
          snprintf(reason, n, "refused %d", ++asked);
          return asked % 2 == 0 ? yes(p, t, env, plan, reason, n) : ATTN_UNSUPPORTED;
        },
        nothing),
    // plan() alternates between two tiles.
    fake::kernel(
        "plan-by-turns",
        PLAN {
          static int asked = 0;
          const attn_status status = yes(p, t, env, plan, reason, n);
          plan->tile_k = 64 << ++asked % 2;
          return status;
        },
        nothing),
    // Each plan() has another reason and other bytes after the path's terminator.
    fake::kernel(
        "reason-by-turns",
        PLAN {
          static int asked = 0;
          const attn_status status = yes(p, t, env, plan, reason, n);
          snprintf(reason, n, "refused %d", ++asked);
          plan->path[63] = static_cast<char>(asked);
          return p->seq_k > 1000 ? ATTN_UNSUPPORTED : status;
        },
        nothing)};

}  // namespace

extern "C" const attn_kernel* attn_kernel_at(uint32_t index) {
  return index < sizeof kernels / sizeof kernels[0] ? &kernels[index] : nullptr;
}
