// Draws pools of pages: their sizes, how they lie in memory, and lengths of the keys in them.
// paging.cc uses this for cases that read pages, and operations that write pages use it for their
// cases.
#pragma once

#include "properties/case/case.h"
#include "properties/case/rng.h"

namespace attnfuzz::feature {

// A length at the border of a page or a tile, at either end of the capacity, or anywhere.
int64_t draw_paged_length(Rng& rng, int64_t page, int64_t tile, int64_t capacity);

Paging draw_paging(Rng& rng);

// Lays out K and V, tensors of pages: by page, slot and head (NHD) or by page, head and slot (HND), and often
// as parts of one array, or with pages so far apart that the last begins 2^31 or 2^32 elements behind the
// first. `percent_far`: the percentage of cases with pages that far apart.
inline constexpr int64_t kPercentFarPools = 12;
void draw_pools(Rng& rng, TensorId k, TensorId v, Case& c, int64_t percent_far = kPercentFarPools);

// Lays out a block table, or another table with rows of numbers.
void draw_table(Rng& rng, TensorId t, Case& c);

}  // namespace attnfuzz::feature
