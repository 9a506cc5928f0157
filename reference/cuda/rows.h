// What the host and the kernels of the oracle on a GPU tell each other: plain data.
//
//   launch_rows(input, output, scratch, &env);     // rows.cu; asynchronous on a GPU
//
// All pointers are of device memory. Inputs are packed: numbers of `dtype`, q a row of it for each
// task, k and v `keys` slots a group (one batch entry and kv head), each row padded with zeros
// to a multiple of kPad elements and aligned to 16 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "reference/call/expected.h"
#include "reference/model/error_model.h"

namespace attnfuzz::cuda {

inline constexpr int kPad = 16;       // columns of one mma, and two loads of 16 bytes
inline constexpr int kThreads = 128;  // of a block, which evaluates a team of rows at a time
inline constexpr int kTeam = 4;       // rows: one a warp
inline constexpr int kBlocksASm = 4;  // as many as a multiprocessor has registers for

// One row to evaluate.
struct RowTask {
  int64_t bias, mask;   // where its own begin, in elements
  int32_t group;        // its keys and values
  int32_t first, last;  // the keys [first, last) that position allows (visibility.h)
};

// Of one group, over the keys that it has: found on the device before the rows are.
struct GroupFacts {
  unsigned long long least_key;  // bits of the least |k_t| that is not 0
  unsigned long long largest;    // bits of max |v| of the finite ones
  int32_t impure_values;         // whether one is not
};

struct RowsInput {
  ErrorNumbers model;
  int32_t dtype, bias_dtype;              // attn_dtype; no bias: ATTN_NONE
  int32_t rows, groups, keys, most_keys;  // most_keys: the largest last - first
  int32_t dim_qk, dim_v, stride_qk, stride_v;
  const RowTask* tasks;
  const int32_t* lengths;  // of each group: how many keys it has
  const void *q, *k, *v;
  const void* bias;
  const uint8_t* mask;  // NULL: none
  GroupFacts* facts;    // on entry as if there were no key: 2^1023, 0, 0
};

// Bytes of a number of Q, K or V.
ATTN_BOTH inline int64_t number_bytes(const RowsInput& in) { return in.dtype == ATTN_F32 ? 4 : 2; }

// One a task; columns of O together.
struct RowsOutput {
  double *o, *o_bound, *o_exact;  // o_exact: NULL where no P is predicted
  double *lse, *lse_bound;
  uint8_t *o_rule, *state;  // Due; RowState, and kAnyColumn
};
// A column of the row is unconstrained.
inline constexpr uint8_t kAnyColumn = 0x80;
// What a row's state leaves its LSE to be.
ATTN_BOTH inline Due lse_due(const ErrorNumbers& model, RowState state) {
  if (state == RowState::kDead && model.any_dead_lse) return Due::kAnything;
  return state == RowState::kNaN             ? Due::kMustBeNaN
         : state == RowState::kUnconstrained ? Due::kAnything
                                             : Due::kNumber;
}

// A number of the key is below ErrorNumbers::least_factor, and not 0.
inline constexpr uint8_t kBelowLeast = 0x80;

// How rows are gone through, and memory for what is known on the way.
struct RowsScratch {
  int rows_a_team;      // that are evaluated together: they read a key or a value once
  int blocks;           // each has one team after another
  size_t shared_bytes;  // dynamic, of a block
  size_t bytes_a_block;
  std::byte* memory;   // bytes_a_block x blocks; none, where shared memory has room
  double* key_norm;    // groups x keys: sum |k_t|
  uint8_t* key_facts;  // likewise: Purity, and kBelowLeast
};
// All but the pointers. `most_blocks`: that the device has room for; `shared_limit`: bytes of a block.
RowsScratch divide_rows(const RowsInput& input, int most_blocks, int64_t shared_limit);

// On env->stream, or run when this returns: attn::launch().
attn_status launch_rows(const RowsInput& input, const RowsOutput& output, const RowsScratch& scratch,
                        const attn_env* env);

}  // namespace attnfuzz::cuda
