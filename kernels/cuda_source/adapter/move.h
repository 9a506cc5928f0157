// The work on each element of a copy, and on each entry of a page table.
#pragma once

#include <cstring>

#include "kernels/cuda_source/adapter/layout.h"
#include "kernels/primitives/types.h"

namespace attn::adapter {

// Describes a move of elements from the caller's tensor to the copy, or back.
struct Move {
  attn_tensor outer;
  char* copy;
  int64_t shape[4], stride[4];
  int bytes;  // bytes of an element
  int32_t dtype;
  float factor;
  bool out;          // from the copy
  const int* pages;  // null if there are no pages
  int64_t page, pages_each;
  const int* owned;  // if not null, rows from *owned on belong to no packed entry, and stay as they are
  unsigned* differences;  // if not null, elements are compared and not moved

  __device__ void operator()(int64_t n) const {
    const int64_t d = n % shape[3], s = n / shape[3] % shape[2], h = n / shape[3] / shape[2] % shape[1];
    const int64_t b = n / shape[3] / shape[2] / shape[1];
    if (owned && s >= *owned) return;
    char* mine = static_cast<char*>(outer.data) + bytes * (b * outer.stride[0] + h * outer.stride[1] +
                                                           s * outer.stride[2] + d * outer.stride[3]);
    int64_t at = b * stride[0] + h * stride[1] + s * stride[2] + d * stride[3];
    if (pages) {  // (page number, key, head, dim)
      const int64_t number = pages[b * pages_each + s / page];
      at = ((number * page + s % page) * shape[1] + h) * shape[3] + d;
    }
    char* its = copy + bytes * at;
    char result[4];
    scaled(mine, result);
    if (differences) {
      bool same = true;
      for (int i = 0; i < bytes; ++i) same = same && its[i] == result[i];
      if (!same) ++*differences;
    } else {
      memcpy(out ? mine : its, out ? its : result, static_cast<size_t>(bytes));
    }
  }

 private:
  // The value of an element's copy.
  __device__ void scaled(const char* element, char* result) const {
    memcpy(result, element, static_cast<size_t>(bytes));
    if (factor == 1) return;
    if (dtype == ATTN_F32) {
      float value;
      memcpy(&value, element, sizeof value);
      value *= factor;
      memcpy(result, &value, sizeof value);
      return;
    }
    uint16_t bits;
    memcpy(&bits, element, sizeof bits);
    if (dtype == ATTN_BF16)
      bits = from_float<BF16>(to_float(BF16{bits}) * factor).bits;
    else
      bits = from_float<F16>(to_float(F16{bits}) * factor).bits;
    memcpy(result, &bits, sizeof bits);
  }
};

// The move of a piece, whose copies begin at `space`.
inline Move move_of(const Takes& takes, const Call& call, const Layout& layout, Piece i, char* space,
                    bool out) {
  const Copy& c = layout.pieces[i];
  Move move = {};
  move.outer = c.from;
  move.copy = space + c.offset;
  for (int n = 0; n < 4; ++n) move.shape[n] = c.shape[n], move.stride[n] = c.stride[n];
  move.bytes = static_cast<int>(c.bytes_each);
  move.dtype = call.problem.dtype;
  move.factor = i == kQ ? layout.factor : 1;
  move.out = out;
  if (takes.page > 0 && (i == kK || i == kV)) {
    move.pages = reinterpret_cast<const int*>(space + layout.pieces[kPages].offset);
    move.page = takes.page;
    move.pages_each = layout.pages_each;
  }
  if ((call.problem.ragged & ATTN_RAGGED_QUERIES) != 0 && (i == kO || i == kLse))
    move.owned = reinterpret_cast<const int*>(space + layout.pieces[kCuQ].offset) + call.problem.batch;
  return move;
}

// Pages lie in another order than their keys: the number of page n of `all`.
__device__ inline int page_number(int64_t n, int64_t all) {
  int64_t step = all / 2 + 1;
  for (;; ++step) {
    int64_t a = step, b = all;
    while (b) {
      const int64_t rest = a % b;
      a = b;
      b = rest;
    }
    if (a == 1) return static_cast<int>((n * step + all / 3) % all);
  }
}

__device__ inline void fill_page(int64_t n, int* pages, int* lengths, const int64_t* given, int64_t batch,
                                 int64_t each, int64_t keys) {
  pages[n] = page_number(n, batch * each);
  if (n % each != 0) return;
  const int64_t b = n / each, length = given ? given[b] : keys;
  lengths[b] = static_cast<int>(length < 0 ? 0 : length > keys ? keys : length);
}

// Number n of an array of offsets: of the caller's, or of dense entries with `rows` rows each.
__device__ inline void fill_border(int64_t n, int* borders, const void* given, int32_t index_dtype, int64_t rows) {
  if (given == nullptr)
    borders[n] = static_cast<int>(n * rows);
  else if (index_dtype == ATTN_INDEX_32)
    borders[n] = static_cast<const int*>(given)[n];
  else
    borders[n] = static_cast<int>(static_cast<const int64_t*>(given)[n]);
}

}  // namespace attn::adapter
