// The numbers of one list of blocks, on a host and on a device (the operation selected).
//
//   const ListOf list(selection, {selection.seed, b, g, i}, {.listed = 8, .blocks = 20, .own = 3});
//   list.write(numbers);      // Problem::select() numbers of 32 or 64 bits; -1: none
//
// A list depends on these arguments only, so a device makes the same lists as a host.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/both.h"
#include "base/random.h"
#include "properties/case/case.h"

namespace attnfuzz {

inline constexpr int64_t kNoBlock = -1;

// Pseudo-random numbers for one list, from its seed, batch entry, KV head and query.
class ListDice {
 public:
  ATTN_BOTH ListDice(uint64_t seed, int64_t b, int64_t g, int64_t i)
      : state_(hash64(hash64(hash64(hash64(seed) ^ static_cast<uint64_t>(b)) ^ static_cast<uint64_t>(g)) ^
                      static_cast<uint64_t>(i))) {}
  ATTN_BOTH uint64_t of(uint64_t salt, int64_t n) const {
    return hash64(hash64(state_ ^ salt) + static_cast<uint64_t>(n));
  }
  ATTN_BOTH int64_t below(int64_t count, uint64_t salt, int64_t n) const {
    return static_cast<int64_t>(of(salt, n) % static_cast<uint64_t>(count));
  }

 private:
  uint64_t state_;
};

// A walk over the blocks 0..count-1 that visits each once, in a pseudo-random order. `count` < 2^32.
class BlockWalk {
 public:
  ATTN_BOTH BlockWalk(const ListDice& dice, int64_t count) : count_(count) {
    if (count < 1) return;
    first_ = static_cast<uint64_t>(dice.below(count, 2, 0));
    step_ = 1 + static_cast<uint64_t>(dice.below(count, 1, 0));
    while (divisor(step_, static_cast<uint64_t>(count)) != 1) ++step_;
  }
  // The n-th block, n < 2^31; kNoBlock behind the last one.
  ATTN_BOTH int64_t at(int64_t n) const {
    if (n >= count_) return kNoBlock;
    return static_cast<int64_t>((first_ + static_cast<uint64_t>(n) * step_) % static_cast<uint64_t>(count_));
  }

 private:
  ATTN_BOTH static uint64_t divisor(uint64_t a, uint64_t b) {
    while (b != 0) {
      const uint64_t rest = a % b;
      a = b, b = rest;
    }
    return a;
  }

  int64_t count_;
  uint64_t first_ = 0, step_ = 1;
};

// Counts of blocks for one list.
struct ListBlocks {
  int64_t listed;  // blocks in the list
  int64_t blocks;  // blocks of the batch entry
  int64_t own;     // the block of the last key that the query may see by position; kNoBlock: there is none
};

class ListOf {
 public:
  ATTN_BOTH ListOf(const Selection& selection, const ListDice& dice, const ListBlocks& of)
      : selection_(selection), dice_(dice), of_(of), walk_(dice, of.own + 1) {}

  // Writes the numbers. `list` has room for them: Problem::select().
  template <class Number>
  ATTN_BOTH void write(Number* list) const {
    write_blocks(list);
    put_in_order(list);
    if (selection_.leading) put_none_first(list);
    if (selection_.tokens) write_tokens(list);
  }

 private:
  template <class Number>
  ATTN_BOTH void write_blocks(Number* list) const {
    const bool empty = selection_.empty > 0 && dice_.below(selection_.empty, 6, 0) == 0;
    for (int64_t n = 0; n < of_.listed; ++n) {
      const bool none = empty || dice_.below(16, 7, n) < selection_.holes;
      list[n] = static_cast<Number>(none ? kNoBlock : block_at(n));
    }
  }

  ATTN_BOTH int64_t before_own(int64_t n) const { return of_.own < n ? kNoBlock : of_.own - n; }
  ATTN_BOTH int64_t block_at(int64_t n) const {
    const int64_t count = of_.own + 1;  // blocks up to the own one
    switch (selection_.kind) {
      case SelectionKind::kFirst:
        return n < of_.blocks ? n : kNoBlock;
      case SelectionKind::kRecent:
        return before_own(n);
      case SelectionKind::kSpread:
        return walk_.at(n);
      case SelectionKind::kFirstOwn:
        if (n == 0) return count > 0 ? 0 : kNoBlock;
        return n < 3 ? before_own(n - 1) : walk_.at(n - 3);
      case SelectionKind::kRepeated:
        return count > 0 ? walk_.at(dice_.below(count < 3 ? count : 3, 3, n)) : kNoBlock;
      case SelectionKind::kAnywhere:
        if (dice_.below(16, 4, n) == 0) return std::numeric_limits<int32_t>::max();
        return dice_.below(of_.blocks + 2, 5, n);
    }
    return kNoBlock;
  }

  template <class Number>
  ATTN_BOTH static void swap(Number& a, Number& b) {
    const Number kept = a;
    a = b, b = kept;
  }
  // Ascending, followed by indices that name no block; or a shuffle.
  template <class Number>
  ATTN_BOTH void put_in_order(Number* list) const {
    if (selection_.order == 0) return;
    if (selection_.order == 1) return sort(list);
    for (int64_t n = of_.listed; n > 1; --n)
      swap(list[n - 1], list[dice_.of(selection_.order, n) % static_cast<uint64_t>(n)]);
  }
  // Sorts by a heap. -1 is the largest.
  template <class Number>
  ATTN_BOTH void sort(Number* list) const {
    for (int64_t n = of_.listed / 2; n-- > 0;) sink(list, n, of_.listed);
    for (int64_t n = of_.listed; n-- > 1;) {
      swap(list[0], list[n]);
      sink(list, 0, n);
    }
  }
  template <class Number>
  ATTN_BOTH static void sink(Number* list, int64_t at, int64_t count) {
    const auto less = [](Number a, Number b) {
      using Unsigned = std::make_unsigned_t<Number>;
      return static_cast<Unsigned>(a) < static_cast<Unsigned>(b);
    };
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
      if (child + 1 < count && less(list[child], list[child + 1])) ++child;
      if (!less(list[at], list[child])) return;
      swap(list[at], list[child]);
    }
  }

  template <class Number>
  ATTN_BOTH void put_none_first(Number* list) const {
    int64_t to = of_.listed;
    for (int64_t n = of_.listed; n-- > 0;)
      if (list[n] != kNoBlock) list[--to] = list[n];
    while (to > 0) list[--to] = static_cast<Number>(kNoBlock);
  }
  // Replaces each block by its keys, from the last one on.
  template <class Number>
  ATTN_BOTH void write_tokens(Number* list) const {
    constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
    const int64_t keys = selection_.block;
    for (int64_t n = of_.listed; n-- > 0;) {
      const int64_t block = list[n];
      for (int64_t k = keys; k-- > 0;) {
        const int64_t key = block * keys + k;
        list[n * keys + k] = static_cast<Number>(block == kNoBlock ? kNoBlock
                                                 : key < kLargest  ? key
                                                                   : kLargest);
      }
    }
  }

  const Selection& selection_;
  ListDice dice_;
  ListBlocks of_;
  BlockWalk walk_;
};

}  // namespace attnfuzz
