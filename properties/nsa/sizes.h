// The sizes of native sparse attention, and its inputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention.h"

namespace attnfuzz::nsa {

// Tokens, heads and columns, and the blocks of the three branches. Fields that are passed to a kernel have the
// names of kernels/attention.h.
struct Sizes {
  int32_t dtype = ATTN_F16;
  int64_t heads_q = 2, heads_kv = 1, dim = 16;
  int64_t tokens = 1;
  int64_t key_step = 1, block_length = 1;  // of compressed blocks: distance d and length l
  int64_t block = 1;                       // keys of a chosen block (l')
  int64_t select = 2, select_first = 1, select_last = 1;
  int64_t window = 1;  // keys that a query sees in the third branch, including its own

  // The number of complete compressed blocks, and the number of chosen blocks, the last of which may be
  // incomplete.
  int64_t compressed() const { return tokens < block_length ? 0 : (tokens - block_length) / key_step + 1; }
  int64_t blocks() const { return (tokens + block - 1) / block; }
};

// Sizes at and beside the borders of the blocks, with at most `most_tokens` tokens.
Sizes draw_sizes(uint64_t seed, int64_t most_tokens);

// "S = 33, H = 4/2, D = 32, f16, compressed blocks of 8 keys 4 apart,
//  3 chosen blocks of 8 keys (1 first, 1 last), window 16"
std::string describe(const Sizes& sizes);

// Dense inputs, exact in the format: Q, K and V by (head, token, column), gates by (head, token, branch). All
// rows and all heads differ. The gates of a row add up to about 1. Some are 0, and some rows have a gate for
// one branch only.
struct Inputs {
  std::vector<float> q, k, v, gates;
};
Inputs draw_inputs(const Sizes& sizes, uint64_t seed);

}  // namespace attnfuzz::nsa
