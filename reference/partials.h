// Judges the two stages of Split-K separately, so that an error shows its stage.
//
// partial: split s owns the KV tiles [s * split_tiles, (s+1) * split_tiles) of tile_k keys each. Its
// partial is the attention over only those keys, normalised by its own sum, in fp32, with its LSE. A split
// without a visible key for a row holds 0 and -inf, and so does a split past the last tile.
//
// reduce: from exact fp32 partials, a weighted mean of the splits (rows/merged_rows.h).
//
//   PartialReference p = evaluate_partials(problem, tensors, plan, calibration, s);
//   p.reference[TensorId::kO].ratio(row, c, partial_o);
//   Reference r = bound_reduce(problem, plan, calibration, splits, o.data(), lse.data());
#pragma once

#include <cstdint>

#include "reference/oracle.h"

namespace attnfuzz {

struct PartialReference {
  int64_t split = 0;
  int64_t first_key = 0;  // the split's keys: first_key <= j < last_key
  int64_t last_key = 0;
  Reference reference;  // its dead rows are those that see no key of the split
};

PartialReference evaluate_partials(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                                   const Calibration& calibration, int64_t split, RowSample sample = {});

// The partials are dense: o is (split, row, dim_v), lse is (split, row), with rows in the order of
// Reference. A partial with LSE -inf has no part in the result, whatever its O holds. A row whose LSEs are
// all -inf is dead. A NaN LSE makes the row NaN; a NaN in O makes its column NaN. `host` is read
// only for the sinks, if the problem has sinks: they are merged here and not into the partials.
Reference bound_reduce(const attn_problem& problem, const attn_plan& plan, const Calibration& calibration,
                       int64_t num_splits, const float* o, const float* lse, const attn_tensors& host = {});

}  // namespace attnfuzz
