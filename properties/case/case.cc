#include "properties/case/case.h"

#include <algorithm>
#include <cmath>

#include "properties/case/geometry.h"

namespace attnfuzz {
namespace {

using Wide = __int128;
using Complaint = std::optional<std::string>;

constexpr int64_t kMaxSize = int64_t{1} << 31;
constexpr int64_t kMaxIndex = int64_t{1} << 40;  // of a remapped recipe

std::string say(const std::string& field, int64_t value, const std::string& allowed) {
  return field + " is " + std::to_string(value) + ", must be " + allowed;
}

Complaint outside(const std::string& field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return std::nullopt;
  return say(field, value, std::to_string(low) + ".." + std::to_string(high));
}

Complaint bad_sizes(const Problem& p) {
  const std::pair<const char*, int64_t> counts[] = {{"batch", p.batch},
                                                    {"heads_q", p.heads_q},
                                                    {"seq_q", p.seq_q},
                                                    {"seq_k", p.seq_k},
                                                    {"heads_kv", p.heads_kv}};
  for (const auto& [name, count] : counts) {
    if (auto why = outside(name, count, 0, kMaxSize)) return why;
  }
  if (auto why = outside("dim_qk", p.dim_qk, 1, 256)) return why;
  if (auto why = outside("dim_v", p.dim_v, 1, 256)) return why;
  if (p.heads_kv < 1) return say("heads_kv", p.heads_kv, "at least 1");
  if (p.heads_q < 1) return say("heads_q", p.heads_q, "at least 1");
  if (p.heads_q % p.heads_kv != 0) {
    return say("heads_q", p.heads_q, "a multiple of heads_kv, which is " + std::to_string(p.heads_kv));
  }
  if (p.num_splits < 0) return say("num_splits", p.num_splits, "0 (the kernel chooses) or more");
  return std::nullopt;
}

Complaint bad_pattern(const std::string& field, const Pattern& pattern) {
  if (pattern.parameter < 1) return say(field + ".parameter", pattern.parameter, "at least 1");
  return std::nullopt;
}

Complaint bad_problem(const Problem& p) {
  if (p.dtype != ATTN_F16 && p.dtype != ATTN_BF16) return say("dtype", p.dtype, "f16 (0) or bf16 (1)");
  if (p.align != ATTN_TOP_LEFT && p.align != ATTN_BOTTOM_RIGHT) {
    return say("align", p.align, "top-left (0) or bottom-right (1)");
  }
  if (!std::isfinite(p.scale)) return "scale is not finite";
  if (!std::isfinite(p.softcap) || p.softcap < 0) return "softcap must be 0 (none), or positive and finite";
  if (auto why = bad_sizes(p)) return why;
  if (p.key_lengths && static_cast<int64_t>(p.key_lengths->size()) != p.batch) {
    return "key_lengths has " + std::to_string(p.key_lengths->size()) + " entries, batch is " +
           std::to_string(p.batch);
  }
  if (p.bias) {
    if (p.bias->dtype != ATTN_F16 && p.bias->dtype != ATTN_BF16 && p.bias->dtype != ATTN_F32) {
      return say("bias.dtype", p.bias->dtype, "f16 (0), bf16 (1) or f32 (2)");
    }
    if (auto why = bad_pattern("bias.finite", p.bias->finite)) return why;
  }
  if (p.mask) {
    if (auto why = bad_pattern("mask.visible", p.mask->visible)) return why;
  }
  return std::nullopt;
}

Complaint bad_fill(const std::string& field, const Fill& fill) {
  if (fill.version != 1) return say(field + ".version", fill.version, "1, the only one known");
  return outside(field + ".exponent", fill.exponent, -256, 256);
}

Complaint bad_layout(const std::string& field, const TensorLayout& layout) {
  std::array<uint8_t, 3> sorted = layout.order;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != std::array<uint8_t, 3>{0, 1, 2}) return field + ".order is not an order of 0, 1 and 2";
  if (auto why = outside(field + ".offset", layout.offset, 0, 1 << 20)) return why;
  if (auto why = outside(field + ".row_gap", layout.row_gap, 0, 1 << 20)) return why;
  return outside(field + ".spread", layout.spread, 0, int64_t{1} << 34);
}

Complaint bad_memory(const Case& c) {
  Wide bytes = 0;
  for (int n = 0; n < kTensorCount; ++n) {
    const auto t = static_cast<TensorId>(n);
    const std::string field = std::string("layout.") + kTensorNames[n];
    if (auto why = bad_layout(field, c.layout[n])) return why;
    if (t == TensorId::kWorkspace || !is_present(c, t)) continue;
    const std::optional<Geometry> g = geometry(c, t);
    if (!g) return field + ": the tensor does not fit 32 GiB; make its sizes, gaps or spread smaller";
    // A zero length counts as one: loops over batches and heads must end, too.
    Wide visited = g->element_bytes;
    for (int64_t size : g->size) visited *= std::max<int64_t>(size, 1);
    bytes += std::max<Wide>(g->touched_bytes, visited);
  }
  if (bytes > kMaxCaseBytes) {
    return "the tensors touch more than " + std::to_string(kMaxCaseBytes) + " bytes; make sizes smaller";
  }
  return std::nullopt;
}

Complaint bad_axis(const std::string& field, const Axis& axis, int64_t size) {
  if (auto why = outside(field + ".repeat", axis.repeat, 1, kMaxIndex)) return why;
  if (auto why = outside(field + ".modulus", axis.modulus, Axis::kKeyLength, kMaxIndex)) return why;
  if (auto why = outside(field + ".multiply", axis.multiply, -kMaxIndex, kMaxIndex)) return why;
  if (auto why = outside(field + ".add", axis.add, -kMaxIndex, kMaxIndex)) return why;
  const int64_t last = size > 0 ? (size - 1) / axis.repeat : 0;
  const Wide ends[2] = {axis.add, static_cast<Wide>(axis.multiply) * last + axis.add};
  const Wide low = std::min(ends[0], ends[1]), high = std::max(ends[0], ends[1]);
  constexpr Wide kNoOverflow = static_cast<Wide>(1) << 62;
  if (axis.modulus == 0 ? low < 0 || high > kMaxIndex : low < -kNoOverflow || high > kNoOverflow) {
    return field + " leads outside 0..2^40";
  }
  return std::nullopt;
}

Complaint bad_remap(const Case& c) {
  const Problem& p = c.problem;
  const Remap& r = c.remap;
  if (r == Remap{}) return std::nullopt;
  if (auto why = bad_axis("remap.batch", r.batch, p.batch)) return why;
  if (auto why = bad_axis("remap.head_q", r.head_q, p.heads_q)) return why;
  if (auto why = bad_axis("remap.head_kv", r.head_kv, p.heads_kv)) return why;
  if (auto why = bad_axis("remap.query", r.query, p.seq_q)) return why;
  if (auto why = bad_axis("remap.key", r.key, p.seq_k)) return why;
  if (auto why = outside("remap.seq_q", r.seq_q, 0, kMaxSize)) return why;
  if (auto why = outside("remap.seq_k", r.seq_k, 0, kMaxSize)) return why;
  if (r.k_shift) {
    if (auto why = bad_fill("remap.k_shift", *r.k_shift)) return why;
  }
  if (r.v_added) return bad_fill("remap.v_added", *r.v_added);
  return std::nullopt;
}

Complaint bad_planted(const Case& c, const Planted& planted, const std::string& field) {
  const TensorId t = planted.tensor;
  if (t != TensorId::kQ && t != TensorId::kK && t != TensorId::kV && t != TensorId::kBias) {
    return field + ".tensor must be q, k, v or bias";
  }
  if (t == TensorId::kBias && !c.problem.bias) return field + ".tensor is bias, but the case has none";
  std::array<int64_t, 4> size = logical_size(c.problem, t);
  const std::array<bool, 4> once = repeated(c.problem, t);
  const std::array<int64_t, 4> at = {planted.b, planted.h, planted.s, planted.d};
  // Coordinates of a remapped case are the recipe's, which may lie nowhere; the
  // column of Q, K and V is never remapped.
  const bool remapped = c.remap != Remap{};
  for (int n = 0; n < 4; ++n) {
    if (once[n]) size[n] = std::min<int64_t>(size[n], 1);
    if (remapped && (n < 3 || t == TensorId::kBias)) size[n] = kMaxIndex;
    if (at[n] < 0 || at[n] >= size[n]) {
      return field + " lies at index " + std::to_string(at[n]) + " of dimension " + std::to_string(n) + " of " +
             kTensorNames[static_cast<size_t>(t)] + ", which has " + std::to_string(size[n]);
    }
  }
  const bool wide = t == TensorId::kBias && c.problem.bias->dtype == ATTN_F32;
  if (!wide && planted.bits > 0xffff) return field + ".bits do not fit the 16 bits of its tensor";
  if (planted.bits == (wide ? kNeverWritten : kNeverWritten >> 16)) {
    return field + ".bits mark an output that was never written: use another NaN, as 0x7e00";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> illegal(const Case& c) {
  if (auto why = bad_problem(c.problem)) return why;
  if (c.env.sm_count < 1) return say("env.sm_count", c.env.sm_count, "at least 1");
  if (c.env.compute_capability < 0)
    return say("env.compute_capability", c.env.compute_capability, "80, 90, ...");
  if (c.env.shared_memory_limit < 0) return "env.shared_memory_limit is negative";
  if (c.env.variant < 0) return say("env.variant", c.env.variant, "0 (the kernel's choice) or more");
  if (c.lane.empty()) return "lane is empty; the usual one is \"plain\"";
  const std::pair<const char*, const Fill*> fills[] = {{"q", &c.q}, {"k", &c.k}, {"v", &c.v}};
  for (const auto& [name, fill] : fills) {
    if (auto why = bad_fill(name, *fill)) return why;
  }
  if (c.calls.empty() || c.calls.size() > 64) {
    return say("the number of calls", static_cast<int64_t>(c.calls.size()), "1..64");
  }
  for (const Call& call : c.calls) {
    if (auto why = outside("calls.stream", call.stream, 0, 1)) return why;
  }
  if (auto why = bad_remap(c)) return why;
  for (size_t n = 0; n < c.planted.size(); ++n) {
    if (auto why = bad_planted(c, c.planted[n], "planted[" + std::to_string(n) + "]")) return why;
  }
  return bad_memory(c);
}

}  // namespace attnfuzz
