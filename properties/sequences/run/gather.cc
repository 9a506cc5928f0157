#include "properties/sequences/run/gather.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace attnfuzz::sequences {
namespace {

// Queries are made from token numbers from here on, above all tokens of keys.
constexpr int64_t kFirstQuery = kMostTokens * 2;

// Writes a token's row of K or V in a head.
void put_row(std::vector<std::byte>& to, int64_t row, int64_t columns, const Setup& setup, bool k,
             int64_t token, int64_t head) {
  for (int64_t d = 0; d < columns; ++d) {
    const uint16_t bits = Model::element(setup, k, token, head, d);
    std::memcpy(&to[static_cast<size_t>(row * columns + d) * 2], &bits, 2);
  }
}
uint16_t bits_at(std::span<const std::byte> from, int64_t element) {
  uint16_t bits;
  std::memcpy(&bits, &from[static_cast<size_t>(element) * 2], 2);
  return bits;
}

std::string words_of(int64_t token) {
  return token == Model::kNoToken ? "no token (NaN)" : "token " + std::to_string(token);
}

}  // namespace

Rows::Rows(const Step& step) : entries(std::ssize(step.entries)), rows(step.count), longest(step.count) {
  if (step.counts.empty()) return;
  borders = {0};
  for (const int64_t count : step.counts) borders.push_back(borders.back() + count);
  entries = 1, rows = borders.back();
  longest = std::ranges::max(step.counts);
}

Rows Rows::as_dense() const {
  Rows dense = *this;
  dense.longest = rows;
  dense.borders.clear();
  return dense;
}

std::vector<int64_t> first_pages(const Setup& setup, const Model& model, const Step& step) {
  std::vector<int64_t> pages;
  for (size_t e = 0; e < step.entries.size(); ++e) {
    const int64_t seen = std::max<int64_t>(model.length(step.entries[e]) - step.rows(e), 0);
    pages.push_back(std::min(step.split, seen / setup.page_size));
  }
  return pages;
}

Gathered::Gathered(const Setup& setup, const Model& model, const Step& step, Part part) : rows(step) {
  Problem& p = problem;
  p.dtype = setup.dtype;
  p.batch = std::ssize(step.entries);
  p.heads_q = setup.heads_q, p.heads_kv = setup.heads_kv;
  p.seq_q = rows.longest, p.seq_k = setup.capacity;
  p.dim_qk = setup.dim_qk, p.dim_v = setup.dim_v;
  p.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(setup.dim_qk)));
  p.causal = part != Part::kFirst;  // each query sees all keys of the first call
  p.align = ATTN_BOTTOM_RIGHT;
  if (rows.packed()) p.packed_q = Packing{step.counts, 0, false};
  const std::vector<int64_t> pages = first_pages(setup, model, step);
  q.resize(static_cast<size_t>(rows.entries * p.heads_q * rows.rows * p.dim_qk) * 2);
  k.resize(static_cast<size_t>(p.batch * p.heads_kv * p.seq_k * p.dim_qk) * 2);
  v.resize(static_cast<size_t>(p.batch * p.heads_kv * p.seq_k * p.dim_v) * 2);
  p.key_lengths.emplace();
  for (int64_t b = 0; b < p.batch; ++b) {
    const auto e = static_cast<size_t>(b);
    for (int64_t h = 0; h < p.heads_q; ++h) {
      for (int64_t i = 0; i < step.rows(e); ++i)
        put_row(q, rows.at(p.heads_q, b, h, i), p.dim_qk, setup, true,
                kFirstQuery + step.token + b * kTokensOfEntry + i, h);
    }
    const std::vector<int64_t>& tokens = model.tokens(step.entries[e]);
    const int64_t border = pages[e] * setup.page_size;
    const int64_t first = part == Part::kOthers ? border : 0;
    const int64_t end = part == Part::kFirst ? border : std::ssize(tokens);
    p.key_lengths->push_back(end - first);
    for (int64_t h = 0; h < p.heads_kv; ++h) {
      for (int64_t j = first; j < end; ++j) {
        const int64_t row = (b * p.heads_kv + h) * p.seq_k + j - first, token = tokens[static_cast<size_t>(j)];
        put_row(k, row, p.dim_qk, setup, true, token, h);
        put_row(v, row, p.dim_v, setup, false, token, h);
      }
    }
  }
}

attn_tensors Gathered::tensors() const {
  const Problem& p = problem;
  const auto dense = [](const std::vector<std::byte>& of, int64_t heads, int64_t rows, int64_t columns) {
    return attn_tensor{const_cast<std::byte*>(of.data()), {heads * rows * columns, rows * columns, columns, 1}};
  };
  attn_tensors t = {};
  t.size = sizeof t;
  t.q = dense(q, p.heads_q, rows.rows, p.dim_qk);
  t.k = dense(k, p.heads_kv, p.seq_k, p.dim_qk);
  t.v = dense(v, p.heads_kv, p.seq_k, p.dim_v);
  t.key_lengths = p.key_lengths->data();
  if (rows.packed()) t.cu_q = rows.borders.data();
  return t;
}

std::vector<std::byte> new_rows_of(const Setup& setup, const Step& step, bool k) {
  const Rows rows(step);
  const int64_t columns = k ? setup.dim_qk : setup.dim_v;
  std::vector<std::byte> bytes(static_cast<size_t>(rows.entries * setup.heads_kv * rows.rows * columns) * 2);
  for (int64_t n = 0; n < std::ssize(step.entries); ++n) {
    for (int64_t h = 0; h < setup.heads_kv; ++h) {
      for (int64_t i = 0; i < step.rows(static_cast<size_t>(n)); ++i)
        put_row(bytes, rows.at(setup.heads_kv, n, h, i), columns, setup, k, step.token + n * kTokensOfEntry + i,
                h);
    }
  }
  return bytes;
}

std::optional<std::string> difference(const Model& model, const Setup& setup, bool k,
                                      std::span<const std::byte> pool) {
  const std::span<const std::byte> due = model.pool(k);
  if (std::memcmp(due.data(), pool.data(), due.size()) == 0) return std::nullopt;
  const auto [mine, its] = std::ranges::mismatch(due, pool);
  const std::array<int64_t, 4> stride = model.strides(k);
  const int64_t element = (mine - due.begin()) / 2, page = element / stride[0];
  const int64_t head = element % stride[0] / stride[1] % setup.heads_kv;
  const int64_t slot = element % stride[0] / stride[2] % setup.page_size;
  // Names the token whose row was found there instead, if it is a token of the pool.
  const int64_t columns = k ? setup.dim_qk : setup.dim_v;
  const int64_t row = page * stride[0] + head * stride[1] + slot * stride[2];
  std::string found = "something else";
  for (int64_t from = 0; from < setup.pages * setup.page_size && found == "something else"; ++from) {
    const int64_t from_page = from / setup.page_size, from_slot = from % setup.page_size;
    const int64_t there = from_page * stride[0] + head * stride[1] + from_slot * stride[2];
    bool same = true;
    for (int64_t d = 0; d < columns && same; ++d) same = bits_at(pool, row + d) == bits_at(due, there + d);
    if (same) found = words_of(model.token_at(from_page, from_slot));
  }
  return std::string(k ? "K" : "V") + " of page " + std::to_string(page) + ", slot " + std::to_string(slot) +
         ", head " + std::to_string(head) + " must hold " + words_of(model.token_at(page, slot)) +
         ", and holds " + found;
}

}  // namespace attnfuzz::sequences
