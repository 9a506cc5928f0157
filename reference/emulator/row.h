// Computes one row over the keys of one split, as the plan says.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "reference/emulator/device.h"

namespace attnfuzz::emulator {

// K and V of one batch entry and KV head as bits of fp32 numbers. Rows are padded to whole blocks of
// products, and their number to whole tiles, with zeros.
struct KeysAndValues {
  int64_t width_qk = 0, width_v = 0;
  std::vector<uint32_t> k, v;
  struct NonFinite {
    int64_t key, column;
  };
  std::vector<NonFinite> non_finite;  // values
};

struct RowInput {
  const attn_problem& problem;
  const attn_plan& plan;
  const Device& device;
  const KeysAndValues& kv;
  std::vector<uint32_t> q;    // width_qk
  std::vector<int64_t> keys;  // the keys that it sees, ascending
  std::vector<float> bias;    // one for each key; empty: none
};

struct RowPart {
  std::vector<float> o;  // divided by the split's sum
  float lse;
};

// The keys of tiles first_tile <= t < last_tile.
RowPart row_part(const RowInput& row, int64_t first_tile, int64_t last_tile);

// Merges the results of all splits.
RowPart merge(const attn_plan& plan, const Device& device, const std::vector<RowPart>& parts);

}  // namespace attnfuzz::emulator
