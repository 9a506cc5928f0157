// The sizes of native sparse attention, and its inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention.h"

namespace attnfuzz::nsa {

// Blocks of keys: the distance and the length of compressed blocks, and the length of chosen ones.
struct Blocks {
  int64_t step, length, chosen;
};

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
  // Numbers of tokens, which add up to `tokens`. A packed pass has a sequence of each. Empty: there is no such
  // pass.
  std::vector<int64_t> packed;

  // The number of complete compressed blocks of a sequence, and the number of chosen blocks, the last of which
  // may be incomplete.
  int64_t compressed(int64_t of) const { return of < block_length ? 0 : (of - block_length) / key_step + 1; }
  int64_t compressed() const { return compressed(tokens); }
  int64_t blocks(int64_t of) const { return (of + block - 1) / block; }
  int64_t blocks() const { return blocks(tokens); }
};

// Sizes at and beside the borders of the blocks, with at most `most_tokens` tokens. Half of them have packed
// sequences. Blocks are drawn unless they are given.
Sizes draw_sizes(uint64_t seed, int64_t most_tokens, std::optional<Blocks> given = {});

// "S = 33, H = 4/2, D = 32, f16, compressed blocks of 8 keys 4 apart,
//  3 chosen blocks of 8 keys (1 first, 1 last), window 16; packed as 5, 0, 28"
std::string describe(const Sizes& sizes);

// Dense inputs, exact in the format: Q, K and V by (head, token, column), gates by (head, token, branch). All
// rows and all heads differ. The gates of a row add up to about 1. Some are 0, and some rows have a gate for
// one branch only.
struct Inputs {
  std::vector<float> q, k, v, gates;
};
Inputs draw_inputs(const Sizes& sizes, uint64_t seed);

}  // namespace attnfuzz::nsa
