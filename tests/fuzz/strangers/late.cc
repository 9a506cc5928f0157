// Kernels that work after run() has returned, where a clock around run() does not measure it.
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/fuzz/strangers/stranger.h"

namespace stranger {
namespace {

struct Work {
  attn_problem p;
  attn_tensors t;
  attn_plan plan;
};
Work* under_way;

void finish(const Work& w) { compute(&w.p, &w.t, &w.plan, nullptr); }

STRANGER(thread_later, "thread-later") {
  std::thread([w = Work{*p, *t, *plan}] {
    usleep(20'000);
    finish(w);
  }).detach();
  return ATTN_OK;
}

// The thread starts at once, so that it has mostly finished before the outputs are read.
STRANGER(thread_at_once, "thread-at-once") {
  std::thread([w = Work{*p, *t, *plan}] { finish(w); }).detach();
  return ATTN_OK;
}

// A permanent helper thread that waits for work.
STRANGER(helper, "helper-thread") {
  static std::atomic<Work*> next;
  static std::thread* const worker = new std::thread([] {
    for (;;) {
      if (Work* w = next.exchange(nullptr)) finish(*w);
    }
  });
  worker->native_handle();
  next = new Work{*p, *t, *plan};
  return ATTN_OK;
}

STRANGER(timer, "timer") {
  under_way = new Work{*p, *t, *plan};
  signal(SIGALRM, [](int) { finish(*under_way); });
  itimerval soon = {};
  soon.it_value.tv_usec = 2000;
  setitimer(ITIMER_REAL, &soon, nullptr);
  return ATTN_OK;
}

// The answer to a call is written during the next call.
STRANGER(next_call, "next-call") {
  if (under_way) finish(*under_way);
  under_way = new Work{*p, *t, *plan};
  return ATTN_OK;
}

}  // namespace
}  // namespace stranger
