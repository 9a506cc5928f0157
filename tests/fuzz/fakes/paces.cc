// Kernels that the executor runs: one that is slow and ends, one too slow to end, and one that is stuck.
#include <time.h>

#include <cstdint>

#include "kernels/executor/executor.h"
#include "tests/fuzz/fakes/fake.h"

namespace {

volatile int sink;

struct Pace {
  unsigned blocks;
  unsigned stuck_from;  // number of the block that does not end
};

// Each block burns 10 ms of processor time.
void block(const void* arguments) {
  const Pace& pace = *static_cast<const Pace*>(arguments);
  const clock_t end = clock() + CLOCKS_PER_SEC / 100;
  while (clock() < end || simt::current->geometry->block.x >= pace.stuck_from) sink = 1;
}

template <unsigned kBlocks, unsigned kStuckFrom>
attn_status launch(const attn_problem*, const attn_tensors*, const attn_plan*, const attn_env* env) {
  static constexpr Pace kPace = {kBlocks, kStuckFrom};
  const simt::Index one = {1, 1, 1};
  return simt::launch({{kBlocks, 1, 1}, one, 0, env, block, &kPace, &kPace});
}

constexpr unsigned kNever = ~0u;

const attn_kernel kernels[] = {
    fake::kernel("ends", fake::yes, launch<20, kNever>),
    fake::kernel("slow", fake::yes, launch<1'000'000, kNever>),
    fake::kernel("stuck", fake::yes, launch<8, 3>),
};

}  // namespace

extern "C" ATTN_EXPORT const attn_kernel* attn_kernel_at(uint32_t index) {
  return index < sizeof kernels / sizeof *kernels ? &kernels[index] : nullptr;
}
