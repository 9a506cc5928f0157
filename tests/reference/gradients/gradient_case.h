// A small random backward pass for tests of the oracle of gradients: problem, plan and inputs.
//
//   Small s(ATTN_F16, seed);
//   s.add_more(seed);                        // sinks, dLSE and dbias
//   s.save();                                // O and LSE, as a forward pass stores them
//   const Reference due = s.due();
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "reference/call/row_space.h"
#include "reference/gradients/gradients.h"
#include "reference/numbers/formats.h"
#include "reference/rows/visibility.h"
#include "tests/reference/random.h"

namespace attnfuzz {

// Numbers as a tensor of the problem's dtype holds them.
struct Array {
  std::vector<float> number;
  std::vector<uint16_t> half;
  void set(int32_t dtype, size_t at, double value) {
    number[at] = static_cast<float>(value);
    if (dtype == ATTN_F32) return;
    half[at] = encode16(dtype, number[at]);
    number[at] = static_cast<float>(decode(dtype, &half[at], 0));
  }
  void resize(size_t n) { number.assign(n, 0), half.assign(n, 0); }
  void* data(int32_t dtype) { return dtype == ATTN_F32 ? static_cast<void*>(number.data()) : half.data(); }
};

// A small backward pass with random switches.
struct Small {
  attn_problem p = {};
  attn_plan plan = {};
  Array q, k, v, dout, o;
  std::vector<float> lse, bias, sinks, dlse, dbias;
  std::vector<uint8_t> mask;
  std::array<bool, 3> summed = {};  // dbias is summed over batch entries, heads, queries
  std::vector<int64_t> lengths, lists;

  // `larger`: with more rows, keys and columns than a warp has lanes, and four query heads for each KV head.
  Small(int32_t dtype, uint64_t seed, bool larger = false) {
    Random random(seed);
    const auto any = [&](int64_t low, int64_t high) { return low + random.below(high - low + 1); };
    p.size = sizeof p;
    p.dtype = dtype;
    p.batch = any(1, 2), p.heads_kv = any(1, 2), p.heads_q = p.heads_kv * any(1, 2);
    p.seq_q = any(1, 20), p.seq_k = any(1, 20), p.dim_qk = any(1, 12), p.dim_v = any(1, 12);
    if (larger) {
      p.batch = 1, p.heads_q = 4 * p.heads_kv;
      p.seq_q = any(33, 80), p.seq_k = any(33, 140), p.dim_qk = any(33, 70), p.dim_v = any(33, 70);
    }
    p.scale = static_cast<float>((random.below(4) == 0 ? -1 : 1) / std::sqrt(static_cast<double>(p.dim_qk)));
    p.softcap = random.below(3) == 0 ? 1.5f : 0;
    p.causal = random.below(3) == 0;
    p.align = random.below(2) == 0 ? ATTN_TOP_LEFT : ATTN_BOTTOM_RIGHT;
    p.window_left = random.below(3) == 0 ? any(0, 6) : -1;
    if (larger && p.window_left >= 0) p.window_left += 40;  // first keys of rows lie within blocks of an mma
    p.window_right = random.below(4) == 0 ? any(0, 6) : -1;
    p.has_mask = random.below(3) == 0;
    p.bias_dtype = random.below(3) == 0 ? +ATTN_F32 : +ATTN_NONE;
    p.has_key_lengths = random.below(3) == 0;
    p.features = ATTN_FEATURE_BACKWARD | (dtype == ATTN_F32 ? ATTN_FEATURE_F32 : 0);
    plan.size = sizeof plan;
    plan.tile_q = plan.tile_k = 16;
    plan.num_splits = 1;
    plan.accumulator = ATTN_ACC_FFMA;
    plan.exp_class = ATTN_EXP_EXP2F;
    plan.tanh_class = ATTN_TANH_TANHF;
    plan.scale_mode = ATTN_SCALE_SEPARATE;
    plan.p_format = plan.ds_format = dtype == ATTN_F32 ? ATTN_FORMAT_F32 : ATTN_FORMAT_OF_INPUT;
    plan.head_format = ATTN_FORMAT_F32;
    plan.dq_adds = plan.dkv_adds = 1;
    fill(&random);
  }

  // Adds the optional parts of a backward pass: sinks, dLSE and dbias.
  void add_more(uint64_t seed) {
    Random random(seed ^ 0x5eed);
    if (random.below(3) != 0) {
      p.has_sink = 1, p.sink_dtype = ATTN_F32;
      p.features |= ATTN_FEATURE_SINK | ATTN_FEATURE_DSINK;
      plan.lse_sink = random.below(2) == 0;
    }
    if (random.below(3) != 0) p.features |= ATTN_FEATURE_DLSE;
    if (p.bias_dtype != ATTN_NONE) p.features |= ATTN_FEATURE_DBIAS;
    for (bool& one : summed) one = random.below(3) == 0;
    for (float& x : sinks) x = static_cast<float>(2 * random.gaussian());
    for (float& x : dlse) x = static_cast<float>(random.gaussian());
  }

  // Makes it a problem over listed blocks: short lists with repeats, -1, blocks behind the last key, and empty
  // ones.
  void take_lists(uint64_t seed) {
    Random random(seed ^ 0x115);
    p.window_left = p.window_right = -1, p.has_mask = 0, p.bias_dtype = ATTN_NONE;
    p.features = (p.features & ~ATTN_FEATURE_BACKWARD) | ATTN_FEATURE_SELECTED_BACKWARD;
    if (random.below(3) == 0) p.features |= ATTN_FEATURE_DLSE;
    p.block = 1 + random.below(5), p.select = 1 + random.below(6);
    lists.assign(static_cast<size_t>(p.batch * p.heads_kv * p.seq_q * p.select), -1);
    for (int64_t& index : lists) index = random.below(p.seq_k / p.block + 3) - 1;
    for (float& x : dlse) x = static_cast<float>(random.gaussian());
  }
  // Lets keys stand for blocks of 1 to 6 keys, 1 to 4 apart.
  void take_key_blocks(uint64_t seed) {
    Random random(seed ^ 0xb10c);
    p.features |= ATTN_FEATURE_KEY_STEP;
    p.key_step = 1 + random.below(4), p.key_offset = random.below(6);
    p.causal = random.below(4) > 0;
    for (int64_t& length : lengths) length = length * p.key_step + random.below(6);
  }
  // The mask that hides blocks which a query does not see whole. Written independently of
  // reference/semantics.h.
  std::vector<uint8_t> mask_of_blocks() const {
    std::vector<uint8_t> seen(mask.size(), 0);
    const int64_t most = p.seq_k * p.key_step + p.key_offset;
    for (size_t n = 0; n < mask.size(); ++n) {
      const auto [b, h, i] = RowSpace(p).at(static_cast<int64_t>(n) / p.seq_k);
      const int64_t length = p.has_key_lengths ? std::min(lengths[static_cast<size_t>(b)], most) : most;
      const int64_t t = p.align == ATTN_BOTTOM_RIGHT ? i + length - p.seq_q : i;
      const int64_t last = static_cast<int64_t>(n) % p.seq_k * p.key_step + p.key_offset;
      const bool there = last < length && (p.has_mask == 0 || mask[n] != 0);
      const bool near = (p.window_left < 0 || last >= t - p.window_left) &&
                        (p.window_right < 0 || last <= t + p.window_right);
      seen[n] = there && near && (p.causal == 0 || last <= t);
    }
    return seen;
  }
  // The mask that hides what the lists hide.
  std::vector<uint8_t> mask_of_lists() {
    std::vector<uint8_t> seen(mask.size(), 0);
    std::vector<int64_t> keys;
    const attn_tensors t = tensors();
    for (size_t row = 0; row < rows(); ++row) {
      const Row at = RowSpace(p).at(static_cast<int64_t>(row));
      row_keys(p, t, at.b, at.h, at.i, 0, p.seq_k, &keys);
      for (const int64_t j : keys) seen[pair_at(at.b, at.h, at.i, j)] = 1;
    }
    return seen;
  }
  bool has(uint64_t feature) const { return (p.features & feature) != 0; }
  double sink(int64_t h) const { return has(ATTN_FEATURE_DSINK) ? sinks[static_cast<size_t>(h)] : -INFINITY; }

  size_t rows() const { return static_cast<size_t>(p.batch * p.heads_q * p.seq_q); }
  size_t keys() const { return static_cast<size_t>(p.batch * p.heads_kv * p.seq_k); }
  size_t q_at(int64_t b, int64_t h, int64_t i) const {
    return static_cast<size_t>((b * p.heads_q + h) * p.seq_q + i);
  }
  size_t k_at(int64_t b, int64_t h, int64_t j) const {
    return static_cast<size_t>((b * p.heads_kv + h / (p.heads_q / p.heads_kv)) * p.seq_k + j);
  }
  size_t pair_at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return q_at(b, h, i) * static_cast<size_t>(p.seq_k) + static_cast<size_t>(j);
  }

  attn_tensors tensors() {
    attn_tensors t = {};
    t.size = sizeof t;
    const auto view = [](void* data, int64_t heads, int64_t rows, int64_t columns) {
      return attn_tensor{data, {heads * rows * columns, rows * columns, columns, 1}};
    };
    t.q = view(q.data(p.dtype), p.heads_q, p.seq_q, p.dim_qk);
    t.k = view(k.data(p.dtype), p.heads_kv, p.seq_k, p.dim_qk);
    t.v = view(v.data(p.dtype), p.heads_kv, p.seq_k, p.dim_v);
    t.o = view(o.data(p.dtype), p.heads_q, p.seq_q, p.dim_v);
    t.dout = view(dout.data(p.dtype), p.heads_q, p.seq_q, p.dim_v);
    t.lse = view(lse.data(), p.heads_q, p.seq_q, 1);
    t.bias = view(bias.data(), p.heads_q, p.seq_q, p.seq_k);
    t.mask = view(mask.data(), p.heads_q, p.seq_q, p.seq_k);
    t.sink = {sinks.data(), {0, 1, 0, 1}};
    t.dlse = view(dlse.data(), p.heads_q, p.seq_q, 1);
    t.dbias = view(dbias.data(), p.heads_q, p.seq_q, p.seq_k);
    for (size_t n = 0; n < 3; ++n) {
      if (summed[n]) t.dbias.stride[n] = 0;
    }
    t.key_lengths = lengths.data();
    t.indices = view(lists.data(), p.heads_kv, p.seq_q, p.select);
    return t;
  }
  Reference due(RowSample sample = {}) { return evaluate_gradients(p, tensors(), plan, documented(), sample); }

  // Stores O and LSE as a forward pass does; returns them unrounded, the LSE with its sink.
  std::pair<std::vector<double>, std::vector<double>> save() {
    attn_plan exact = plan;
    exact.p_format = ATTN_FORMAT_F32;
    const Reference stored = evaluate_forward_of(p, tensors(), exact, documented());
    exact.lse_sink = 0;
    const Reference r = evaluate_forward_of(p, tensors(), exact, documented());
    for (size_t n = 0; n < r[TensorId::kO].value.size(); ++n) o.set(p.dtype, n, r[TensorId::kO].value[n]);
    for (size_t n = 0; n < lse.size(); ++n) lse[n] = static_cast<float>(stored[TensorId::kLse].value[n]);
    return {r[TensorId::kO].value, r[TensorId::kLse].value};
  }

 private:
  void fill(Random* random) {
    const auto columns = [](int64_t n) { return static_cast<size_t>(n); };
    q.resize(rows() * columns(p.dim_qk)), k.resize(keys() * columns(p.dim_qk));
    v.resize(keys() * columns(p.dim_v)), dout.resize(rows() * columns(p.dim_v));
    o.resize(dout.number.size());
    lse.assign(rows(), 0), dlse.assign(rows(), 0), sinks.assign(columns(p.heads_q), 0);
    dbias.assign(rows() * columns(p.seq_k), 0);
    const double peak = std::pow(2.0, static_cast<double>(random->below(4)));
    for (Array* array : {&q, &k, &v, &dout}) {
      const double times = array == &q ? peak : 1;
      for (size_t n = 0; n < array->number.size(); ++n) array->set(p.dtype, n, times * random->gaussian());
    }
    const size_t pairs = rows() * columns(p.seq_k);
    bias.assign(pairs, 0), mask.assign(pairs, 1);
    for (float& x : bias)
      x = random->below(8) == 0 ? -std::numeric_limits<float>::infinity()
                                : static_cast<float>(random->gaussian());
    for (uint8_t& x : mask) x = random->below(4) != 0;
    for (int64_t b = 0; b < p.batch; ++b) lengths.push_back(random->below(p.seq_k + 1));
  }
};

inline bool gives(const Reference& r, TensorId tensor) {
  return std::ranges::any_of(r.outputs,
                             [&](const Expected& due) { return due.tensor == tensor && !due.value.empty(); });
}

}  // namespace attnfuzz
