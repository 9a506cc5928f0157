// The data that the host and the GPU oracle of gradients exchange (ATTN_FEATURE_BACKWARD and
// ATTN_FEATURE_SELECTED_BACKWARD).
//
//   launch_gradients(input, output, scratch, &env);     // gradients.cu; asynchronous on a GPU
//
// All pointers are to device memory. What the forward pass reads is packed as rows.h says. There is a row for
// each query that a batch entry has, in the order of batch entries, heads and queries. There may be rows of
// absent queries among them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "reference/cuda/rows.h"
#include "reference/gradients/gradient_pairs.h"

namespace attnfuzz::cuda {

// The query of a row: its head, and its place in the batch entry.
struct GradientTask {
  int32_t head, query;
};
// The place of a query that its packed batch entry does not have. Such a row sees no key, and its numbers are 0.
// Nothing is judged by it.
inline constexpr int32_t kAbsent = -1;

// pairs_kernel has a row of blocks for each group: the second dimension of a grid, which has at most this size.
inline constexpr int64_t kMostGroups = 65535;

// The size of each dimension of dbias; 1 if dbias is summed over it.
struct BiasShape {
  int32_t batch, heads, queries;
};

struct GradientsInput {
  RowsInput rows;  // its model is gradients::error_model()
  gradients::Terms terms;
  int32_t heads_q, heads_kv, seq_q, tile_q, tile_k;
  int32_t most_rows;  // of a group
  bool sinks, apart;  // dsink is asked for; and the stored LSE leaves the sink out
  bool gathered;      // keys and queries stand in any order in the blocks of an mma: listed blocks
  bool biased;        // dbias is asked for
  BiasShape dbias;    // if `biased`
  const GradientTask* tasks;
  const int32_t* first_row;  // of each group, and behind the last group the number of rows
  const void *dout, *o;      // as V: `stride_v` numbers a row
  const float *lse, *dlse;   // in the plan's form; dlse is NULL if the call has none
  // O (dim_v numbers a row) and the natural LSE of a kernel that computes both by itself, with their bounds;
  // they replace `o` and `lse`. NULL for other kernels. own_lse_apart and its bound: without the sink, if
  // `apart`.
  const double *own_o, *own_lse, *own_o_error, *own_lse_error, *own_lse_apart, *own_lse_apart_error;
};
// Sets the numbers from heads_q to `biased` except most_rows. `apart`: gradients::leaves_sink_out().
inline void set_numbers(const attn_problem& p, const attn_plan& plan, bool apart, GradientsInput* in) {
  const auto number = [](int64_t n) { return static_cast<int32_t>(n); };
  in->heads_q = number(p.heads_q), in->heads_kv = number(p.heads_kv), in->seq_q = number(p.seq_q);
  in->tile_q = number(plan.tile_q < 1 ? 1 : plan.tile_q), in->tile_k = number(plan.tile_k < 1 ? 1 : plan.tile_k);
  in->sinks = (p.features & ATTN_FEATURE_DSINK) != 0;
  in->apart = apart;
  in->gathered = (p.features & ATTN_FEATURE_SELECTED_BACKWARD) != 0;
  in->biased = (p.features & ATTN_FEATURE_DBIAS) != 0;
}

// Elements are dense.
struct GradientOutput {
  double *value, *bound;
  uint8_t* rule;  // Due
};
struct GradientsOutput {
  GradientOutput dq;      // rows x dim_qk
  GradientOutput dk, dv;  // groups x keys x columns; 0 for keys behind the key length
  // batch x heads_q x seq_q x keys; a sum stands at each index of the dimensions that it covers
  GradientOutput dbias;
  GradientOutput dsink;  // query heads
  uint8_t* state;        // of each row: RowState, and kAnyColumn
};

// A kernel finds this about each row before another looks at pairs. The names are those of gradients::Pair.
struct GradientRow {
  double lse, lse_error, delta, delta_size, delta_factors, delta_error;
  double dlse, lse_apart, lse_apart_error;
  double q_norm, q_most, dout_norm;
  double sum_error;  // the relative error of dQ's sums
  int64_t pairs;
  gradients::Taint q_taint, dout_taint, lse_taint, row_taint, taint, sink_taint;  // as in gradients.cc
};
struct GradientKey {
  double k_norm, v_norm;
  double sum_error;  // of dK's and dV's sums
  int64_t pairs;
  gradients::Taint k_taint, v_taint;
};

struct GradientsScratch {
  GradientRow* rows;
  GradientKey* keys;
  uint32_t* groups;                   // facts about each group
  double *a, *a_error, *p, *p_error;  // dA and P of each pair: rows x keys
  double *s, *s_error;                // dS of each pair, if dbias is asked for
  uint8_t* facts;                     // of each pair
};
// Sets the pointers to parts of `memory`. Returns the bytes that they need.
size_t divide_gradients(const GradientsInput& input, std::byte* memory, GradientsScratch* scratch);

// Runs on env->stream, or synchronously: attn::launch().
attn_status launch_gradients(const GradientsInput& input, const GradientsOutput& output,
                             const GradientsScratch& scratch, const attn_env* env);

}  // namespace attnfuzz::cuda
