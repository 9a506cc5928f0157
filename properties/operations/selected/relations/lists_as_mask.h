// Lists of blocks as a mask, for relations that compare them with an operation that has masks.
#pragma once

#include <cstdint>
#include <vector>

#include "properties/operations/selected/relations/tools.h"

namespace attnfuzz::relations {

// More pairs than this are too many for a mask.
inline bool too_many_pairs_for_mask(const Problem& p) {
  constexpr double kMostPairs = 0x1p20;
  return static_cast<double>(RowSpace(p).count()) * static_cast<double>(p.seq_k) > kMostPairs;
}

// One byte for each (b, h, i, j), dense: not 0 if the query sees the key. It is made from the recipe of the
// lists.
inline std::vector<uint8_t> mask_of_lists(const Case& c) {
  const Problem& p = c.problem;
  const RowSpace rows(p);
  std::vector<uint8_t> mask(static_cast<size_t>(rows.count() * p.seq_k));
  for (int64_t row = 0; row < rows.count(); ++row) {
    const auto [b, h, i] = rows.at(row);
    for (int64_t j = 0; j < p.seq_k; ++j) mask[static_cast<size_t>(row * p.seq_k + j)] = sees(c, b, h, i, j);
  }
  return mask;
}

// Replaces the lists of a call by the mask. The caller changes the bit of the operation.
inline void lists_to_mask(std::vector<uint8_t>& mask, attn_problem* p, attn_tensors* tensors) {
  p->block = p->select = 0;
  p->has_mask = 1;
  p->causal = 0;  // the mask hides these keys already
  tensors->indices = {};
  tensors->mask = {mask.data(), {p->heads_q * p->seq_q * p->seq_k, p->seq_q * p->seq_k, p->seq_k, 1}};
}

}  // namespace attnfuzz::relations
