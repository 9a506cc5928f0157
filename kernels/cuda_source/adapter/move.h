// Device code for each element of a copy, and for each entry of a page table.
#pragma once

#include <cstring>

#include "kernels/cuda_source/adapter/layout.h"
#include "kernels/primitives/types.h"

namespace attn::adapter {

// Element n of an array of lengths, offsets or page numbers.
__device__ inline int64_t number_at(const void* array, int32_t index_dtype, int64_t n) {
  return index_dtype == ATTN_INDEX_32 ? static_cast<const int*>(array)[n]
                                      : static_cast<const int64_t*>(array)[n];
}

// Describes a move of elements from the caller's tensor to the copy, or back.
struct Move {
  attn_tensor outer;
  char* copy;
  int64_t shape[4], stride[4];
  int bytes;  // bytes of an element
  int32_t dtype;
  float factor;
  bool out;          // true: from the copy to the caller's tensor
  const int* pages;  // of the copy; null if the adapter puts no keys into pages
  int64_t page, pages_each;
  // If the adapter moves keys into pages: `borders` if the caller's keys are packed, `table` if they lie in
  // pages of another size. Otherwise null.
  const int* borders;
  const void* table;
  int64_t batch, table_stride, table_page;
  const int* lengths;  // with a table: the keys of each batch entry
  int32_t index_dtype;
  const int* owned;  // if not null, rows from *owned on belong to no packed entry, and stay as they are
  unsigned* differences;  // if not null, elements are compared and not moved

  __device__ void operator()(int64_t n) const {
    const int64_t d = n % shape[3], h = n / shape[3] / shape[2] % shape[1];
    int64_t s = n / shape[3] % shape[2], b = n / shape[3] / shape[2] / shape[1];
    if (owned && s >= *owned) return;
    int64_t first = b, row = s;  // of the caller's tensor
    if (borders) {
      for (b = 0; b < batch && s >= borders[b + 1];) ++b;
      if (b == batch) return;  // a row of no entry
      s -= borders[b];
    } else if (table) {
      if (s >= lengths[b]) return;
      first = number_at(table, index_dtype, b * table_stride + s / table_page);
      row = s % table_page;
    }
    char* mine = static_cast<char*>(outer.data) + bytes * (first * outer.stride[0] + h * outer.stride[1] +
                                                           row * outer.stride[2] + d * outer.stride[3]);
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
  // Writes an element, multiplied by `factor`, to `result`.
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

// Sets the fields of a move that say where the caller's keys are, and into which pages they go.
inline void find_keys(const Call& call, const Layout& layout, char* space, Move* move) {
  const attn_problem& p = call.problem;
  const auto numbers = [&](Piece piece) {
    return reinterpret_cast<const int*>(space + layout.pieces[piece].offset);
  };
  move->pages = numbers(kPages);
  move->page = layout.page;
  move->pages_each = layout.pages_each;
  move->batch = p.batch;
  if ((p.ragged & ATTN_RAGGED_KEYS) != 0) move->borders = numbers(kCuK);
  if (p.page_size == 0) return;
  move->table = call.tensors.block_table.data;
  move->table_stride = p.batch > 1 ? call.tensors.block_table.stride[0] : 0;
  move->table_page = p.page_size;
  move->lengths = numbers(kLengths);
  move->index_dtype = p.index_dtype;
}

// The move of a piece, whose copies begin at `space`.
inline Move move_of(const Call& call, const Layout& layout, Piece i, char* space, bool out) {
  const Copy& c = layout.pieces[i];
  Move move = {};
  move.outer = c.from;
  move.copy = space + c.offset;
  for (int n = 0; n < 4; ++n) move.shape[n] = c.shape[n], move.stride[n] = c.stride[n];
  move.bytes = static_cast<int>(c.bytes_each);
  move.dtype = call.problem.dtype;
  move.factor = i == kQ ? layout.factor : 1;
  move.out = out;
  if (layout.page > 0 && !layout.same_pages && (i == kK || i == kV)) find_keys(call, layout, space, &move);
  if ((call.problem.ragged & ATTN_RAGGED_QUERIES) != 0 && (i == kO || i == kLse))
    move.owned = reinterpret_cast<const int*>(space + layout.pieces[kCuQ].offset) + call.problem.batch;
  return move;
}

// The number of the n-th page of keys, of `all` pages. The order is shuffled, so that page numbers do not
// follow keys.
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

// Makes the table of the kernel's pages and the lengths of batch entries: call it with 0 to count() - 1.
struct PageTable {
  int *pages, *lengths;
  int64_t batch, each, keys;
  const int* borders;  // of packed keys; null: each entry has `keys`
  const void *given,
      *of_caller;  // the caller's table, if the kernel gets it, and the caller's lengths; or null
  int64_t given_stride;
  int32_t index_dtype;

  __device__ void operator()(int64_t n) const {
    const int64_t b = n / columns(), column = n % columns();
    if (column < each)
      pages[n] = given ? static_cast<int>(number_at(given, index_dtype, b * given_stride + column))
                       : page_number(n, batch * each);
    if (column != 0) return;
    const int64_t most = borders ? borders[b + 1] - borders[b] : keys,
                  length = of_caller ? number_at(of_caller, index_dtype, b) : most;
    lengths[b] = static_cast<int>(length < 0 ? 0 : length > most ? most : length);
  }
  __device__ int64_t columns() const { return each > 0 ? each : 1; }
  int64_t count() const { return batch * (each > 0 ? each : 1); }
};

inline PageTable page_table(const Call& call, const Layout& layout, char* space) {
  const attn_problem& p = call.problem;
  const auto numbers = [&](Piece piece) { return reinterpret_cast<int*>(space + layout.pieces[piece].offset); };
  PageTable made = {};
  made.pages = numbers(kPages), made.lengths = numbers(kLengths);
  made.batch = p.batch, made.each = layout.pages_each, made.keys = p.seq_k;
  if ((p.ragged & ATTN_RAGGED_KEYS) != 0) made.borders = numbers(kCuK);
  if (p.has_key_lengths) made.of_caller = call.tensors.key_lengths;
  made.index_dtype = p.index_dtype;
  if (!layout.same_pages) return made;
  made.given = call.tensors.block_table.data;
  made.given_stride = p.batch > 1 ? call.tensors.block_table.stride[0] : 0;
  return made;
}

// Sets borders[n] to the caller's offset n, or to n * rows if the caller's entries are dense (`given` is null).
__device__ inline void fill_border(int64_t n, int* borders, const void* given, int32_t index_dtype, int64_t rows) {
  if (given == nullptr)
    borders[n] = static_cast<int>(n * rows);
  else if (index_dtype == ATTN_INDEX_32)
    borders[n] = static_cast<const int*>(given)[n];
  else
    borders[n] = static_cast<int>(static_cast<const int64_t*>(given)[n]);
}

}  // namespace attn::adapter
