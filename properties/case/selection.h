// The lists of the operation selected: which blocks of keys a query may see.
//
//   for (const int64_t block : listed_blocks(c.problem, b, g, i)) ...   // -1: none
//
// A list depends only on its (b, g, i), on the selection and on the sizes of the problem.
#pragma once

#include <cstdint>
#include <vector>

#include "properties/case/case.h"

namespace attnfuzz {

// The block of the last key that query i may see by position; -1 if there is no such key.
int64_t own_block(const Problem& p, int64_t b, int64_t i);
// The list of query i of KV head g: problem.select() numbers.
std::vector<int64_t> listed_blocks(const Problem& p, int64_t b, int64_t g, int64_t i);
// True if the list names the block of key j. j is not negative.
bool lists(const Problem& p, int64_t b, int64_t g, int64_t i, int64_t j);

}  // namespace attnfuzz
