// Makes the lists of a call over listed blocks, a thread for each list, and the masks that show the oracle the
// same keys.
#include <cuda_runtime.h>

#include "fuzz/batch/device/kernels.h"
#include "fuzz/batch/device/units.cuh"
#include "kernels/primitives/launch.h"

namespace attnfuzz::batch {
namespace {

// As listed_blocks() and list_at() do on the host.
__device__ void lay_list(const Work& work, int64_t b, int64_t g, int64_t i) {
  const Call& call = *work.call;
  const Recipe& recipe = call.recipe;
  const Selection& selection = recipe.selection;
  const KeyRange range = key_range(call.problem, lengths_of(call, b), i);
  const int64_t size = selection.block, room = room_for_keys(call, b), length = length_of(call, b);
  const ListBlocks of = {.listed = recipe.listed,
                         .blocks = room / size + (room % size != 0),
                         .own = range.last <= range.first ? kNoBlock : (range.last - 1) / size};
  const ListDice dice(selection.seed, source(recipe.batch, b, length), source(recipe.head_kv, g, length),
                      source(recipe.query, i, length));
  ListOf(selection, dice, of).write(const_cast<int32_t*>(list_of(work, b, g, i)));
}

__global__ void __launch_bounds__(kThreads) lay_lists_kernel(const __grid_constant__ Work work) {
  const attn_problem& p = work.call->problem;
  for (int64_t list = first_unit(); list < p.batch * p.heads_kv * p.seq_q; list += stride_of_units()) {
    const int64_t head = list / p.seq_q, b = head / p.heads_kv, i = list % p.seq_q;
    if (i < queries_of(*work.call, b)) lay_list(work, b, head % p.heads_kv, i);
  }
}

// A warp writes a mask. Position and the key length hide further keys (RowTask).
__global__ void __launch_bounds__(kThreads) lay_masks_kernel(const __grid_constant__ Work work) {
  const attn_problem& p = work.call->problem;
  const int64_t stride = padded_keys(work.input), lane = threadIdx.x % 32;
  for (int64_t list = first_unit() / 32; list < p.batch * p.heads_kv * p.seq_q;
       list += stride_of_units() / 32) {
    const int64_t head = list / p.seq_q, b = head / p.heads_kv, i = list % p.seq_q;
    if (i >= queries_of(*work.call, b)) continue;
    uint8_t* const shown = const_cast<uint8_t*>(work.input.mask) + list * stride;
    for (int64_t j = lane; j < stride; j += 32) shown[j] = 0;
    __syncwarp();
    const int32_t* const blocks = list_of(work, b, head % p.heads_kv, i);
    for (int64_t n = lane; n < p.select; n += 32) {
      const int64_t first = blocks[n] * p.block;
      if (blocks[n] == kNoBlock) continue;
      for (int64_t j = first; j < first + p.block && j < p.seq_k; ++j) shown[j] = 1;
    }
  }
}

}  // namespace

attn_status lay_lists(const Call& call, const Work& work, const attn_env* env) {
  const attn_problem& p = call.problem;
  const auto lists = static_cast<uint64_t>(p.batch * p.heads_kv * p.seq_q);
  const auto grid = [&](uint64_t a_block) {
    return dim3(static_cast<unsigned>(std::min(lists / a_block + 1, kMostBlocks)));
  };
  const attn_status status = attn::launch(lay_lists_kernel, grid(kThreads), dim3(kThreads), 0, env, work);
  if (status != ATTN_OK) return status;
  return attn::launch(lay_masks_kernel, grid(kThreads / 32), dim3(kThreads), 0, env, work);
}

}  // namespace attnfuzz::batch
