// One-pass attention for one GPU: what the host passes to the kernel.
#pragma once

#include <stdint.h>

constexpr int kTile = 64;     // queries of a block, and keys of a tile
constexpr int kMaxDim = 64;   // columns of Q, K, V and O
constexpr int kThreads = 64;  // one for each query row

// Strides in elements: batch, head, sequence, column.
struct Strides {
  int64_t batch, head, seq, col;
};

struct AttentionArgs {
  const void *q, *k, *v;
  void* o;
  float* lse;                  // may be null
  const unsigned char* mask;   // may be null; 0 hides a key
  const int64_t* key_lengths;  // may be null
  Strides q_strides, k_strides, v_strides, o_strides, lse_strides, mask_strides;
  int heads_q, heads_kv, tiles_q;
  int64_t seq_q, seq_k;
  int dim_qk, dim_v;
  float scale;
  int64_t left, right;  // keys a query sees on each side of its diagonal
  bool bottom_right;    // the diagonal ends at the last key, not at key seq_q - 1
};
