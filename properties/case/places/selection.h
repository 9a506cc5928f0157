// The lists of the operation selected: which blocks of keys a query may see.
//
//   for (const int64_t block : listed_blocks(c.problem, b, i, {b, g, i})) ...   // -1: none
//
// A list depends only on its query, on the selection, on the sizes of the problem and on the lengths of the batch
// entry. A dense call of a packed entry alone has the same lists, if their length (select) is the same.
#pragma once

#include <cstdint>
#include <vector>

#include "properties/case/case.h"
#include "reference/call/row_space.h"

namespace attnfuzz {

// The block of the last key that query i may see by position; -1 if there is no such key.
int64_t own_block(const Problem& p, int64_t b, int64_t i);
// The list of query i of batch entry b: problem.select() numbers. `of` seeds its pseudo-random numbers: the list's own
// batch entry, KV head and query, or those that it had before a variant moved it (Remap).
std::vector<int64_t> listed_blocks(const Problem& p, int64_t b, int64_t i, const Row& of);
// True if this list names the block of key j. j is not negative.
bool lists(const Problem& p, int64_t b, int64_t i, const Row& of, int64_t j);

}  // namespace attnfuzz
