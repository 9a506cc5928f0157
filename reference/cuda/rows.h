// The data that the host and the GPU oracle's kernels exchange.
//
//   launch_rows(input, output, scratch, &env);     // rows.cu; asynchronous on a GPU
//
// All pointers are to device memory. Inputs are packed: q has one row of `dtype` numbers for each task; k
// and v have `keys` slots for each group (one batch entry and KV head). Each row is padded with zeros to a
// multiple of kPad elements and aligned to 16 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "reference/call/expected.h"
#include "reference/model/error_model.h"

namespace attnfuzz::cuda {

inline constexpr int kPad = 16;       // columns of one mma, and two loads of 16 bytes
inline int64_t padded(int64_t elements) { return (elements + kPad - 1) / kPad * kPad; }
inline constexpr int kThreads = 128;  // of a block, which evaluates one team of rows at a time
inline constexpr int kThreadsAlone = 512;    // of a block that evaluates one long row at a time
inline constexpr int kRoomAlone = 32 << 10;  // bytes of shared memory in which its warps exchange sums
inline constexpr int kTeam = 4;       // rows, one for each warp
inline constexpr int kBlocksASm = 4;  // as many as a multiprocessor's registers allow

// One row to evaluate.
struct RowTask {
  int64_t bias, mask;   // where its own rows begin, in elements
  int32_t group;        // of its keys and values
  int32_t first, last;  // the keys [first, last) that position allows (visibility.h)
  double sink;          // of its head; -infinity: none
  double slope;         // of its head; 0: none
  int64_t diagonal;     // the key on its diagonal, with slopes
};

// Facts about the keys of one group, found on the device before its rows are evaluated.
struct GroupFacts {
  unsigned long long least_key;  // bits of the least |k_t| that is not 0
  unsigned long long largest;    // bits of max |v| of the finite ones
  int32_t impure_values;         // true if a value is not finite
};

struct RowsInput {
  ErrorNumbers model;
  int32_t dtype, bias_dtype;              // attn_dtype; no bias: ATTN_NONE
  bool slopes;                            // the tasks have slopes
  int32_t rows, groups, keys, most_keys;  // most_keys: the largest last - first
  int32_t dim_qk, dim_v, stride_qk, stride_v;
  const RowTask* tasks;
  const int32_t* lengths;  // number of keys of each group
  const void *q, *k, *v;
  const void* bias;
  const uint8_t* mask;  // NULL: none
  GroupFacts* facts;    // initially as if there were no key: 2^1023, 0, 0
};

// Bytes of a number of Q, K or V.
ATTN_BOTH inline int64_t number_bytes(const RowsInput& in) { return in.dtype == ATTN_F32 ? 4 : 2; }

// One for each task; the columns of O are adjacent.
struct RowsOutput {
  double *o, *o_bound, *o_exact;  // o_exact: NULL if no P is predicted
  double *lse, *lse_bound;
  uint8_t *o_rule, *state;  // Due; RowState, and kAnyColumn
};
// A column of the row is unconstrained.
inline constexpr uint8_t kAnyColumn = 0x80;
// The LSE's expectation that follows from a row's state.
ATTN_BOTH inline Due lse_due(const ErrorNumbers& model, RowState state) {
  if (state == RowState::kDead && model.any_dead_lse) return Due::kAnything;
  return state == RowState::kNaN             ? Due::kMustBeNaN
         : state == RowState::kUnconstrained || state == RowState::kAbsent
             ? Due::kAnything
                                             : Due::kNumber;
}

// A number of the key is below ErrorNumbers::least_factor, and not 0.
inline constexpr uint8_t kBelowLeast = 0x80;

// The distribution of rows, and the memory for intermediates.
struct RowsScratch {
  int rows_a_team;      // evaluated together, so that they read a key or a value once
  int threads;          // of a block: kThreads, or kThreadsAlone
  int blocks;           // each works on one team after another
  size_t shared_bytes;  // dynamic, of a block
  size_t bytes_a_block;
  std::byte* memory;   // bytes_a_block x blocks; none if shared memory has room
  double* key_norm;    // groups x keys: sum |k_t|
  uint8_t* key_facts;  // likewise: Purity, and kBelowLeast
};
// Returns all members but the pointers. `most_blocks`: the blocks that the device has room for. `shared_limit`:
// bytes of a block.
RowsScratch divide_rows(const RowsInput& input, int most_blocks, int64_t shared_limit);

// Runs on env->stream, or synchronously: attn::launch().
attn_status launch_rows(const RowsInput& input, const RowsOutput& output, const RowsScratch& scratch,
                        const attn_env* env);

}  // namespace attnfuzz::cuda
