#include "reference/rows/visibility.h"

#include <algorithm>
#include <numeric>

#include "reference/call/row_space.h"
#include "reference/call/sequences.h"
#include "reference/numbers/formats.h"

namespace attnfuzz {
namespace {

bool masks_allow(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t h, int64_t i,
                 int64_t j) {
  if (problem.has_mask &&
      static_cast<const uint8_t*>(tensors.mask.data)[offset_of(tensors.mask, b, h, i, j)] == 0)
    return false;
  if (problem.bias_dtype != ATTN_NONE) {
    const double bias = decode(problem.bias_dtype, tensors.bias.data, offset_of(tensors.bias, b, h, i, j));
    if (hides(bias)) return false;
  }
  return true;
}

bool selects(const attn_problem& problem) {
  return (problem.features & (ATTN_FEATURE_SELECTED | ATTN_FEATURE_SELECTED_BACKWARD)) != 0;
}

// Calls f with each number of the query's list.
template <class F>
void for_each_index(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t h, int64_t i, F f) {
  const int64_t g = h / (problem.heads_q / problem.heads_kv);
  const StoredRow at = Sequences(problem, tensors).query_row(b, i);
  for (int64_t n = 0; n < problem.select; ++n)
    f(index_at(problem.index_dtype, tensors.indices.data, offset_of(tensors.indices, at.entry, g, at.row, n)));
}

// The listed keys j with first <= j < last, ascending, each once.
void listed_keys(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t h, int64_t i,
                 int64_t first, int64_t last, std::vector<int64_t>* keys) {
  std::vector<int64_t> blocks;
  for_each_index(problem, tensors, b, h, i, [&](int64_t block) {
    if (block >= 0 && block <= (last - 1) / problem.block) blocks.push_back(block);
  });
  std::ranges::sort(blocks);
  const auto again = std::ranges::unique(blocks);
  blocks.erase(again.begin(), again.end());
  for (const int64_t block : blocks) {
    for (int64_t j = std::max(block * problem.block, first); j < std::min((block + 1) * problem.block, last); ++j)
      keys->push_back(j);
  }
}

// True if the list of the query names the block of key j >= 0.
bool lists(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t h, int64_t i, int64_t j) {
  bool found = false;
  for_each_index(problem, tensors, b, h, i, [&](int64_t block) { found = found || block == j / problem.block; });
  return found;
}

}  // namespace

int64_t key_length(const attn_problem& problem, const attn_tensors& tensors, int64_t b) {
  return lengths_of(problem, tensors, b).keys;
}

Lengths lengths_of(const attn_problem& problem, const attn_tensors& tensors, int64_t b) {
  const Sequences sequences(problem, tensors);
  const int64_t queries = sequences.queries.length(b), room = sequences.keys.length(b);
  if (!problem.has_key_lengths) return entry_lengths(problem, queries, room);
  return entry_lengths(problem, queries, room, index_at(problem.index_dtype, tensors.key_lengths, b));
}

std::vector<int64_t> take_absent(const attn_problem& problem, const attn_tensors& tensors, std::vector<int64_t>* rows) {
  std::vector<int64_t> absent;
  const Sequences sequences(problem, tensors);
  if (!sequences.queries.packed()) return absent;
  const RowSpace space(problem);
  std::erase_if(*rows, [&](int64_t row) {
    const Row at = space.at(row);
    if (at.i < sequences.queries.length(at.b)) return false;
    absent.push_back(row);
    return true;
  });
  return absent;
}

bool sees(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t h, int64_t i,
          int64_t j) {
  return visible(problem, lengths_of(problem, tensors, b), i, j) && masks_allow(problem, tensors, b, h, i, j) &&
         (!selects(problem) || lists(problem, tensors, b, h, i, j));
}

bool has_holes(const attn_problem& problem) {
  return problem.has_mask || problem.bias_dtype != ATTN_NONE || selects(problem);
}

KeyRange key_range(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t i) {
  return key_range(problem, lengths_of(problem, tensors, b), i);
}

void row_keys(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t h, int64_t i,
              int64_t begin, int64_t end, std::vector<int64_t>* keys) {
  const KeyRange range = key_range(problem, tensors, b, i);
  const int64_t first = std::max(range.first, begin);
  const int64_t last = std::min(range.last, end);
  keys->clear();
  if (last <= first) return;
  if (selects(problem)) {
    listed_keys(problem, tensors, b, h, i, first, last, keys);
    std::erase_if(*keys, [&](int64_t j) { return !masks_allow(problem, tensors, b, h, i, j); });
    return;
  }
  if (!has_holes(problem)) {
    keys->resize(static_cast<size_t>(last - first));
    std::iota(keys->begin(), keys->end(), first);
    return;
  }
  constexpr int64_t kAtOnce = 256;
  double bias[kAtOnce] = {};
  for (int64_t at = first; at < last; at += kAtOnce) {
    const int64_t count = std::min(kAtOnce, last - at);
    if (problem.bias_dtype != ATTN_NONE)
      decode_strided(problem.bias_dtype, tensors.bias.data, offset_of(tensors.bias, b, h, i, at),
                     tensors.bias.stride[3], count, bias);
    const uint8_t* mask = nullptr;
    if (problem.has_mask)
      mask = static_cast<const uint8_t*>(tensors.mask.data) + offset_of(tensors.mask, b, h, i, at);
    for (int64_t k = 0; k < count; ++k) {
      const bool masked = mask && mask[k * tensors.mask.stride[3]] == 0;
      if (!masked && !hides(bias[k])) keys->push_back(at + k);
    }
  }
}

}  // namespace attnfuzz
