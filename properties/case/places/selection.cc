#include "properties/case/places/selection.h"

#include <algorithm>
#include <tuple>

#include "properties/case/places/list_values.h"
#include "properties/case/places/packed.h"

namespace attnfuzz {
namespace {

// The blocks of the keys that batch entry b has room for.
int64_t blocks_of_entry(const Problem& p, int64_t b) {
  if (!p.packed_k) return p.blocks();
  const int64_t keys = packed_length(*p.packed_k, p.seq_k, b), size = std::max<int64_t>(p.selection.block, 1);
  return keys / size + (keys % size != 0);
}

// True if two problems have the same lists.
bool same_lists(const Problem& a, const Problem& b) {
  const auto key = [](const Problem& p) {
    return std::tie(p.selection, p.features, p.seq_q, p.seq_k, p.causal, p.align, p.key_lengths, p.packed_q,
                    p.packed_k);
  };
  return key(a) == key(b);
}

}  // namespace

int64_t own_block(const Problem& p, int64_t b, int64_t i) {
  const KeyRange range = key_range(p, lengths_of(p, b), i);
  return range.last <= range.first ? kNoBlock : (range.last - 1) / std::max<int64_t>(p.selection.block, 1);
}

std::vector<int64_t> listed_blocks(const Problem& p, int64_t b, int64_t i, const Row& of) {
  std::vector<int64_t> list(static_cast<size_t>(p.select()));
  ListOf(p.selection, ListDice(p.selection.seed, of.b, of.h, of.i),
         {.listed = p.listed(), .blocks = blocks_of_entry(p, b), .own = own_block(p, b, i)})
      .write(list.data());
  return list;
}

bool lists(const Problem& p, int64_t b, int64_t i, const Row& of, int64_t j) {
  // Callers check many keys of one list in a row, so the last list is kept.
  struct Last {
    Problem p;
    int64_t b = -1, i = -1;
    Row of = {-1, -1, -1};
    std::vector<int64_t> blocks;
  };
  static thread_local Last last;
  const auto key = [](const Row& at) { return std::tie(at.b, at.h, at.i); };
  if (last.b != b || last.i != i || key(last.of) != key(of) || !same_lists(last.p, p)) {
    last = {p, b, i, of, listed_blocks(p, b, i, of)};
    std::ranges::sort(last.blocks);
  }
  return std::ranges::binary_search(last.blocks, j / std::max<int64_t>(p.block(), 1));
}

}  // namespace attnfuzz
