// The price of a case, and how a case becomes cheaper.
//
// A kernel computes whole tiles, and pads head dimensions to the next multiple of 64 columns. The price
// therefore counts whole tiles of the variant that will run: 65 keys cost as much as 128. A case that costs
// too much gives up one thing after another, each chosen by weighted chance. In a fixed order, the thing that
// is given up first would never be large.
//
//   while (!budget.affords(c) && give_up(config, rng, c, keeps)) {}
#pragma once

#include <functional>

#include "properties/case/case.h"
#include "properties/case/features/generator_config.h"
#include "properties/case/rng.h"

namespace attnfuzz {

// 128 bits, because a file may ask for any size.
using Wide = __int128;

// A head dimension is paid for in steps of this many columns.
inline constexpr int64_t kColumns = 64;

// Multiply-adds of the case itself.
Wide exact_work(const Problem& p);
// The work of whole tiles and whole steps of 64 columns, the blocks that are launched, and the elements of
// the largest tensor.
struct Price {
  Wide work, blocks, elements;
  bool operator<=(const Price& other) const {
    return work <= other.work && blocks <= other.blocks && elements <= other.elements;
  }
};
Price price(const GeneratorConfig& config, const Case& c);

// A long sequence spans many tiles, and may have more than 2^16 positions. Few cases have one, and their
// other length is short.
inline int64_t longest(const Problem& p) { return std::max(p.seq_q, p.seq_k); }
inline bool is_long(const Problem& p) { return longest(p) >= 1024; }
// A decode's queries fill a small part of a tile, and the executor needs a fraction of a tile's time for
// them.
inline bool is_decode(const Problem& p) { return p.seq_q <= 8; }

// The most that a case may cost in whole tiles: `eighths` / 8 of config.work, and never less than eight tiles.
// A decode may cost kTimesDecode times as much. With kMostEighths, a long case may cost kTimesLong times
// config.work, because whole tiles of 64 rows overstate the work of its short length; it may always have one
// row or column of tiles.
inline constexpr int64_t kMostEighths = 48, kTimesDecode = 4, kTimesLong = 64;
Price most(const GeneratorConfig& config, const Case& c, int64_t eighths = kMostEighths);
bool affordable(const Case& c, const GeneratorConfig& config);

// The work of the case's keys for one head, one tile of queries and few columns. At most `most_tiles` tiles of
// keys count; if the kernel declares a short list of lengths, all of them do. If the kernel takes only equal
// lengths, or has a minimum of queries or columns, there are as many queries and columns as it needs.
Wide room(const GeneratorConfig& config, const Case& c, int64_t most_tiles);

// Reduces one number: batch entries, heads, splits, a length or a head dimension. A change that `keeps` refuses
// is undone. Returns false if no change was possible in a limited number of tries.
bool give_up(const GeneratorConfig& config, Rng& rng, Case& c, const std::function<bool(const Case&)>& keeps);

}  // namespace attnfuzz
