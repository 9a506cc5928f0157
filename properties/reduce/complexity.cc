#include "properties/reduce/complexity.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "properties/reduce/planted_rank.h"

namespace attnfuzz {
namespace {

class Cost {
 public:
  void add(int64_t value) { words_.push_back(value); }
  void add(bool value) { words_.push_back(value ? 1 : 0); }
  void add(int value) { words_.push_back(value); }
  // An order of all 64-bit values that starts at 0.
  void bits(uint64_t value) {
    words_.push_back(static_cast<int64_t>(value >> 1));
    words_.push_back(static_cast<int64_t>(value & 1));
  }
  // Distance from a default, the default itself first.
  void distance(int64_t value, int64_t usual) {
    const int64_t far = value >= 0 ? saturated_sub(value, usual) : saturated_sub(usual, value);
    add(far >= 0 ? far : -(far + 1));
    add(value < usual);
  }
  void add(const Pattern& p) {
    add(static_cast<int>(p.kind));
    add(p.parameter);
    bits(p.seed);
  }
  void add(const Broadcast& b) {
    add(int{b.batch} + int{b.head} + int{b.query});
    add(int{b.batch} * 4 + int{b.head} * 2 + int{b.query});
  }
  // 0 costs nothing, then 1, then small integers and powers of two, then the rest by bits.
  void add(float x) {
    const uint32_t raw = std::bit_cast<uint32_t>(x);
    int64_t rank = 4;
    int exponent = 0;
    if (x == 0.0f) {
      rank = 0;
    } else if (x == 1.0f) {
      rank = 1;
    } else if (std::isfinite(x) && std::fabs(std::frexp(x, &exponent)) == 0.5f) {
      rank = 2;
    } else if (std::isfinite(x) && std::fabs(x) < 4096 && x == std::floor(x)) {
      rank = 3;
    }
    add(rank);
    add(std::signbit(x));
    add(rank == 2 ? std::int64_t{std::abs(exponent - 1)} : 0);
    add(int64_t{raw});
  }
  static int64_t saturated_add(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
  }
  static int64_t saturated_sub(int64_t a, int64_t b) {
    int64_t difference;
    return __builtin_sub_overflow(a, b, &difference) ? INT64_MAX : difference;
  }
  std::vector<int64_t> take() { return std::move(words_); }

 private:
  std::vector<int64_t> words_;
};

void sizes(const Case& c, Cost& cost) {
  const Problem& p = c.problem;
  cost.add(static_cast<int64_t>(c.calls.size()));
  int dirty = 0, streams = 0;
  for (const Call& call : c.calls) {
    dirty += call.dirty_workspace;
    streams += call.stream;
  }
  cost.add(dirty);
  cost.add(streams);
  cost.distance(p.batch, 1);  // an empty batch is not simpler than a batch of one
  cost.add(p.heads_q);
  cost.add(p.heads_kv > 0 ? p.heads_q / p.heads_kv : INT64_MAX);
  cost.add(Cost::saturated_add(p.seq_q, p.seq_k));
  cost.add(std::max(p.seq_q, p.seq_k));
  cost.add(p.seq_q);
  cost.add(Cost::saturated_add(p.dim_qk, p.dim_v));
  cost.add(std::max(p.dim_qk, p.dim_v));
  cost.add(p.dim_qk);
}

int layout_cost(const TensorLayout& l) {
  const TensorLayout usual;
  return int{l.order != usual.order} + int{l.offset != 0} + int{l.row_gap != 0} + int{l.spread != 0} +
         int{l.junk_unit_strides} + int{l.placement != usual.placement};
}

// How many parts of the case are not as they are in Case{}.
int feature_count(const Case& c) {
  const Problem& p = c.problem;
  const Environment usual;
  int n = int{p.dtype != ATTN_F16} + int{p.causal} + int{p.align != ATTN_TOP_LEFT} + int{p.window_left >= 0} +
          int{p.window_right >= 0} + int{p.key_lengths.has_value()} + int{p.num_splits != 0} +
          int{p.softcap != 0} + int{p.scale != 1} + int{p.mask.has_value()} + int{p.bias.has_value()} +
          int{c.nan_beyond_lengths} + int{!c.planted.empty()} + int{c.prefill != Prefill::kNan} +
          int{!c.want_lse};
  n += int{c.env.sm_count != usual.sm_count} + int{c.env.compute_capability != usual.compute_capability} +
       int{c.env.shared_memory_limit != usual.shared_memory_limit} + int{c.env.variant != usual.variant} +
       int{c.env.schedule_seed != 0};
  for (const TensorLayout& l : c.layout) n += layout_cost(l);
  return n;
}

void features(const Case& c, Cost& cost) {
  const Problem& p = c.problem;
  const Environment usual;
  cost.add(feature_count(c));
  cost.add(c.remap != Remap{});
  // A bias may do more than hide keys, so a mask that does as much is simpler.
  cost.add(p.bias.has_value());
  cost.add(p.mask.has_value());
  cost.add(c.nan_beyond_lengths);
  cost.add(static_cast<int64_t>(c.planted.size()));
  cost.add(c.env.variant != usual.variant);
  cost.add(p.dtype);
  // Of ways to hide keys causality is the simplest, then windows, then lengths.
  cost.add(p.key_lengths ? static_cast<int64_t>(p.key_lengths->size()) : 0);
  if (p.key_lengths) {
    for (const int64_t length : *p.key_lengths) cost.distance(length, 0);
  }
  // Unbounded is simplest, then a window of nothing but the diagonal.
  cost.add(p.window_left < 0 ? 0 : Cost::saturated_add(p.window_left, 1));
  cost.add(p.window_right < 0 ? 0 : Cost::saturated_add(p.window_right, 1));
  cost.distance(p.window_left, -1);
  cost.distance(p.window_right, -1);
  cost.add(p.causal);
  cost.add(p.align);
  cost.distance(p.num_splits, 0);
  cost.add(p.softcap);
  cost.add(p.scale == 1.0f ? 0.0f : p.scale);
  if (p.mask) {
    cost.add(p.mask->visible);
    cost.add(p.mask->broadcast);
  }
  if (p.bias) {
    cost.add(static_cast<int>(p.bias->kind));
    cost.add(p.bias->dtype == ATTN_F32 ? 0 : 1 + p.bias->dtype);
    cost.add(p.bias->finite);
    cost.add(p.bias->broadcast);
    cost.bits(p.bias->seed);
  }
  cost.distance(c.env.variant, usual.variant);
  cost.add(p.scale);
}

void data(const Case& c, Cost& cost) {
  const std::array<const Fill*, 3> fills = {&c.q, &c.k, &c.v};
  int64_t kinds = 0, exponents = 0, seeded = 0;
  for (const Fill* f : fills) {
    kinds += static_cast<int>(f->kind);
    exponents += std::abs(int64_t{f->exponent});
    seeded += f->seed != 0;
  }
  // A seed that matters is worse than a kind that is less simple.
  cost.add(seeded);
  cost.add(kinds);
  cost.add(exponents);
  for (const Fill* f : fills) {
    cost.add(static_cast<int>(f->kind));
    cost.distance(f->exponent, 0);
    cost.add(f->version);
  }
  for (const Planted& x : c.planted) {
    cost.add(Cost::saturated_add(Cost::saturated_add(x.b, x.h), Cost::saturated_add(x.s, x.d)));
    cost.add(x.b);
    cost.add(x.h);
    cost.add(x.s);
    cost.add(x.d);
    cost.add(static_cast<int>(x.tensor));
    cost.add(int64_t{planted_rank(x.bits, planted_dtype(c, x))});
  }
}

void surroundings(const Case& c, Cost& cost) {
  const Environment usual;
  for (const TensorLayout& l : c.layout) {
    cost.add(layout_cost(l));
    cost.add(l.order[0] * 9 + l.order[1] * 3 + l.order[2] - 5);
    cost.distance(l.offset, 0);
    cost.distance(l.row_gap, 0);
    cost.distance(l.spread, 0);
    cost.add(l.junk_unit_strides);
    cost.add(static_cast<int>(l.placement));
  }
  cost.add(static_cast<int>(c.prefill));
  cost.add(!c.want_lse);
  cost.distance(c.env.sm_count, usual.sm_count);
  cost.distance(c.env.compute_capability, usual.compute_capability);
  cost.distance(c.env.shared_memory_limit, usual.shared_memory_limit);
}

void seeds(const Case& c, Cost& cost) {
  cost.bits(c.env.schedule_seed);
  cost.bits(c.q.seed);
  cost.bits(c.k.seed);
  cost.bits(c.v.seed);
  for (const Call& call : c.calls) {
    cost.add(call.dirty_workspace);
    cost.add(call.stream);
  }
}

}  // namespace

std::vector<int64_t> complexity(const Case& c) {
  Cost cost;
  sizes(c, cost);
  features(c, cost);
  data(c, cost);
  surroundings(c, cost);
  seeds(c, cost);
  return cost.take();
}

}  // namespace attnfuzz
