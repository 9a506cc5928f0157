#include "properties/sequences/gather.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace attnfuzz::sequences {
namespace {

// No token has this number: those of queries lie above all others.
constexpr int64_t kFirstQuery = kMostTokens * 2;

void put(std::vector<std::byte>& to, size_t element, uint16_t bits) { std::memcpy(&to[element * 2], &bits, 2); }
uint16_t bits_at(std::span<const std::byte> from, int64_t element) {
  uint16_t bits;
  std::memcpy(&bits, &from[static_cast<size_t>(element) * 2], 2);
  return bits;
}

std::string words_of(int64_t token) {
  return token == Model::kNoToken ? "no token (NaN)" : "token " + std::to_string(token);
}

}  // namespace

Gathered::Gathered(const Setup& setup, const Model& model, const Step& step) {
  Problem& p = problem;
  p.dtype = setup.dtype;
  p.batch = static_cast<int64_t>(step.entries.size());
  p.heads_q = setup.heads_q, p.heads_kv = setup.heads_kv;
  p.seq_q = step.count, p.seq_k = setup.capacity;
  p.dim_qk = setup.dim_qk, p.dim_v = setup.dim_v;
  p.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(setup.dim_qk)));
  p.causal = true;
  p.align = ATTN_BOTTOM_RIGHT;
  p.key_lengths.emplace();
  for (const int64_t n : step.entries) p.key_lengths->push_back(model.length(n));
  q.resize(static_cast<size_t>(p.batch * p.heads_q * p.seq_q * p.dim_qk) * 2);
  size_t at = 0;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.heads_q; ++h) {
      for (int64_t i = 0; i < p.seq_q; ++i) {
        const int64_t token = kFirstQuery + step.token + b * kTokensOfEntry + i;
        for (int64_t d = 0; d < p.dim_qk; ++d) put(q, at++, Model::element(setup, true, token, h, d));
      }
    }
  }
  for (const bool of_k : {true, false}) {
    const int64_t columns = of_k ? p.dim_qk : p.dim_v;
    std::vector<std::byte>& to = of_k ? k : v;
    to.resize(static_cast<size_t>(p.batch * p.heads_kv * p.seq_k * columns) * 2);
    for (int64_t b = 0; b < p.batch; ++b) {
      const std::vector<int64_t>& tokens = model.tokens(step.entries[static_cast<size_t>(b)]);
      for (int64_t h = 0; h < p.heads_kv; ++h) {
        for (size_t j = 0; j < tokens.size(); ++j) {
          const auto first = static_cast<size_t>(((b * p.heads_kv + h) * p.seq_k + static_cast<int64_t>(j)) * columns);
          for (int64_t d = 0; d < columns; ++d)
            put(to, first + static_cast<size_t>(d), Model::element(setup, of_k, tokens[j], h, d));
        }
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
  t.q = dense(q, p.heads_q, p.seq_q, p.dim_qk);
  t.k = dense(k, p.heads_kv, p.seq_k, p.dim_qk);
  t.v = dense(v, p.heads_kv, p.seq_k, p.dim_v);
  t.key_lengths = p.key_lengths->data();
  return t;
}

std::vector<std::byte> new_rows_of(const Setup& setup, const Step& step, bool k) {
  const int64_t columns = k ? setup.dim_qk : setup.dim_v;
  const auto entries = static_cast<int64_t>(step.entries.size());
  std::vector<std::byte> rows(static_cast<size_t>(entries * setup.heads_kv * step.count * columns) * 2);
  size_t at = 0;
  for (int64_t n = 0; n < entries; ++n) {
    for (int64_t h = 0; h < setup.heads_kv; ++h) {
      for (int64_t i = 0; i < step.count; ++i) {
        const int64_t token = step.token + n * kTokensOfEntry + i;
        for (int64_t d = 0; d < columns; ++d) put(rows, at++, Model::element(setup, k, token, h, d));
      }
    }
  }
  return rows;
}

std::optional<std::string> difference(const Model& model, const Setup& setup, bool k, std::span<const std::byte> pool) {
  const std::span<const std::byte> due = model.pool(k);
  const auto [mine, its] = std::ranges::mismatch(due, pool);
  if (mine == due.end()) return std::nullopt;
  const std::array<int64_t, 4> stride = model.strides(k);
  const int64_t element = (mine - due.begin()) / 2, page = element / stride[0];
  const int64_t head = element % stride[0] / stride[1] % setup.heads_kv;
  const int64_t slot = element % stride[0] / stride[2] % setup.page_size;
  // The token whose row lies there instead, if it is one that the pool has.
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
         ", head " + std::to_string(head) + " must hold " + words_of(model.token_at(page, slot)) + ", and holds " +
         found;
}

}  // namespace attnfuzz::sequences
