#include "properties/case/places/selection.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/random.h"
#include "properties/case/places/packed.h"

namespace attnfuzz {
namespace {

constexpr int64_t kNoBlock = -1;

// Pseudo-random numbers for one list.
class ListDice {
 public:
  ListDice(uint64_t seed, const Row& of)
      : state_(hash64(hash64(hash64(hash64(seed) ^ static_cast<uint64_t>(of.b)) ^ static_cast<uint64_t>(of.h)) ^
                      static_cast<uint64_t>(of.i))) {}
  uint64_t of(uint64_t salt, int64_t n) const {
    return hash64(hash64(state_ ^ salt) + static_cast<uint64_t>(n));
  }
  int64_t below(int64_t count, uint64_t salt, int64_t n) const {
    return static_cast<int64_t>(of(salt, n) % static_cast<uint64_t>(count));
  }

 private:
  uint64_t state_;
};

// Number n of a walk over 0..count-1 that visits each once.
int64_t spread_at(const ListDice& dice, int64_t count, int64_t n) {
  if (n >= count) return kNoBlock;
  int64_t step = 1 + dice.below(count, 1, 0);
  while (std::gcd(step, count) != 1) ++step;
  const auto at =
      static_cast<unsigned __int128>(dice.below(count, 2, 0)) + static_cast<unsigned __int128>(n) * step;
  return static_cast<int64_t>(at % static_cast<uint64_t>(count));
}

// The blocks of the keys that batch entry b has room for.
int64_t blocks_of_entry(const Problem& p, int64_t b) {
  if (!p.packed_k) return p.blocks();
  const int64_t keys = packed_length(*p.packed_k, p.seq_k, b), size = std::max<int64_t>(p.selection.block, 1);
  return keys / size + (keys % size != 0);
}

// `blocks`: of the batch entry; `own`: see SelectionKind.
int64_t block_at(const Problem& p, const ListDice& dice, int64_t blocks, int64_t own, int64_t n) {
  const int64_t count = own + 1;  // blocks up to the own one
  switch (p.selection.kind) {
    case SelectionKind::kFirst:
      return n < blocks ? n : kNoBlock;
    case SelectionKind::kRecent:
      return std::max(own - n, kNoBlock);
    case SelectionKind::kSpread:
      return spread_at(dice, count, n);
    case SelectionKind::kFirstOwn:
      if (n == 0) return count > 0 ? 0 : kNoBlock;
      return n < 3 ? std::max(own - (n - 1), kNoBlock) : spread_at(dice, count, n - 3);
    case SelectionKind::kRepeated:
      return count > 0 ? spread_at(dice, count, dice.below(std::min<int64_t>(count, 3), 3, n)) : kNoBlock;
    case SelectionKind::kAnywhere: {
      if (dice.below(16, 4, n) == 0) return std::numeric_limits<int32_t>::max();
      return dice.below(blocks + 2, 5, n);
    }
  }
  return kNoBlock;
}

// Ascending, followed by indices that name no block; or a shuffle.
void put_in_order(uint64_t order, const ListDice& dice, std::vector<int64_t>& list) {
  if (order == 0) return;
  if (order == 1) {
    std::ranges::sort(list, {}, [](int64_t block) { return static_cast<uint64_t>(block); });
    return;
  }
  for (size_t n = list.size(); n > 1; --n)
    std::swap(list[n - 1], list[dice.of(order, static_cast<int64_t>(n)) % n]);
}

// True if two problems have the same lists.
bool same_lists(const Problem& a, const Problem& b) {
  const auto key = [](const Problem& p) {
    return std::tie(p.selection, p.features, p.seq_q, p.seq_k, p.causal, p.align, p.key_lengths, p.packed_q,
                    p.packed_k);
  };
  return key(a) == key(b);
}

// The list in blocks.
std::vector<int64_t> blocks_of_list(const Problem& p, int64_t b, int64_t i, const Row& of) {
  const Selection& selection = p.selection;
  const ListDice dice(selection.seed, of);
  std::vector<int64_t> list(static_cast<size_t>(p.listed()), kNoBlock);
  if (selection.empty > 0 && dice.below(selection.empty, 6, 0) == 0) return list;
  const int64_t blocks = blocks_of_entry(p, b), own = own_block(p, b, i);
  for (size_t n = 0; n < list.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    list[n] = dice.below(16, 7, at) < selection.holes ? kNoBlock : block_at(p, dice, blocks, own, at);
  }
  put_in_order(selection.order, dice, list);
  if (selection.leading) {
    const size_t none = std::erase(list, kNoBlock);
    list.insert(list.begin(), none, kNoBlock);
  }
  return list;
}

}  // namespace

int64_t own_block(const Problem& p, int64_t b, int64_t i) {
  const KeyRange range = key_range(p, lengths_of(p, b), i);
  return range.last <= range.first ? kNoBlock : (range.last - 1) / std::max<int64_t>(p.selection.block, 1);
}

std::vector<int64_t> listed_blocks(const Problem& p, int64_t b, int64_t i, const Row& of) {
  const std::vector<int64_t> blocks = blocks_of_list(p, b, i, of);
  if (!p.selection.tokens) return blocks;
  std::vector<int64_t> tokens;
  tokens.reserve(static_cast<size_t>(p.select()));
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
  for (const int64_t block : blocks) {
    for (int64_t n = 0; n < p.selection.block; ++n)
      tokens.push_back(block == kNoBlock ? kNoBlock : std::min(block * p.selection.block + n, kLargest));
  }
  return tokens;
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
