// What a case costs, and what it gives up to cost less.
//
// A kernel pays for tiles whole and for the next multiple of 64 columns, so it is tiles of
// the variant that will run that are counted: a case of 65 keys costs one of 128. A case that
// costs too much gives up one thing after the other, chosen at random by weight: a draw and
// a mutation that have always given up the same thing first would never be seen with it.
//
//   while (!budget.affords(c) && give_up(config, rng, c, keeps)) {}
#pragma once

#include <functional>

#include "properties/case/case.h"
#include "properties/case/generator_config.h"
#include "properties/case/rng.h"

namespace attnfuzz {

// Sizes may be as large as a file asks for.
using Wide = __int128;

// Head dimensions are paid for by so many columns.
inline constexpr int64_t kColumns = 64;

// Multiply-adds that a case asks for.
Wide exact_work(const Problem& p);
// Those of whole tiles, of all 64 columns; blocks that are launched; elements of the largest tensor.
struct Price {
  Wide work, blocks, elements;
  bool operator<=(const Price& other) const {
    return work <= other.work && blocks <= other.blocks && elements <= other.elements;
  }
};
Price price(const GeneratorConfig& config, const Case& c);

// A sequence of many tiles, up to what 16 bits cannot count: few are drawn, and of those the other
// length is short.
inline int64_t longest(const Problem& p) { return std::max(p.seq_q, p.seq_k); }
inline bool is_long(const Problem& p) { return longest(p) >= 1024; }
// A decode's queries fill a small part of a tile. The executor spends a fraction of a tile's time on it.
inline bool is_decode(const Problem& p) { return p.seq_q <= 8; }

// The most that a case may cost, in eighths of config.work as whole tiles count: always room for
// eight tiles, and for one row or column of tiles of a long sequence. A decode may cost four times as
// much, and what is long as much as its own work in tiles of 64 rows, for these it does not cost.
inline constexpr int64_t kMostEighths = 48, kTimesDecode = 4, kTimesLong = 64;
Price most(const GeneratorConfig& config, const Case& c, int64_t eighths = kMostEighths);
bool affordable(const Case& c, const GeneratorConfig& config);

// Whole tiles of a case's keys, at most `most_tiles` of them, of one head and few columns. A kernel that takes
// equal lengths alone, or many queries, or many columns, pays for those as well; and where the kernel declares
// few of all lengths, all tiles of such a length count.
Wide room(const GeneratorConfig& config, const Case& c, int64_t most_tiles);

// Makes one thing less: heads, a length, a head dimension, unless `keeps` then says no. False
// if nothing was left to give up that was tried.
bool give_up(const GeneratorConfig& config, Rng& rng, Case& c, const std::function<bool(const Case&)>& keeps);

}  // namespace attnfuzz
