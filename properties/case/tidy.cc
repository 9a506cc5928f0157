#include "properties/case/tidy.h"

#include <algorithm>

namespace attnfuzz {
namespace {

bool has_seed(FillKind kind) {
  return kind != FillKind::kZero && kind != FillKind::kConstant && kind != FillKind::kOneHot;
}

bool has_seed(PatternKind kind) { return kind == PatternKind::kDeadTiles || kind == PatternKind::kRandom; }

bool has_parameter(PatternKind kind) {
  return kind != PatternKind::kAll && kind != PatternKind::kNothing && kind != PatternKind::kFirstKey &&
         kind != PatternKind::kLastKey;
}

void tidy(Pattern& p) {
  if (!has_seed(p.kind)) p.seed = 0;
  if (!has_parameter(p.kind)) p.parameter = 1;
  p.parameter = std::max<int64_t>(p.parameter, 1);
}

// The size of dimension `axis` of a tensor that values can be planted in.
std::array<int64_t, 4> shape(const Problem& p, TensorId t) {
  switch (t) {
    case TensorId::kQ:
      return {p.batch, p.heads_q, p.seq_q, p.dim_qk};
    case TensorId::kK:
      return {p.batch, p.heads_kv, p.seq_k, p.dim_qk};
    case TensorId::kV:
      return {p.batch, p.heads_kv, p.seq_k, p.dim_v};
    case TensorId::kBias:
      return {p.batch, p.heads_q, p.seq_q, p.seq_k};
    default:
      return {0, 0, 0, 0};
  }
}

void tidy_planted(Case& c) {
  std::vector<Planted> kept;
  for (Planted x : c.planted) {
    const auto size = shape(c.problem, x.tensor);
    if (x.tensor == TensorId::kBias && !c.problem.bias) continue;
    if (std::ranges::any_of(size, [](int64_t n) { return n < 1; })) continue;
    x.b = std::clamp<int64_t>(x.b, 0, size[0] - 1);
    x.h = std::clamp<int64_t>(x.h, 0, size[1] - 1);
    x.s = std::clamp<int64_t>(x.s, 0, size[2] - 1);
    x.d = std::clamp<int64_t>(x.d, 0, size[3] - 1);
    std::erase_if(kept, [&](const Planted& y) {
      return y.tensor == x.tensor && y.b == x.b && y.h == x.h && y.s == x.s && y.d == x.d;
    });
    kept.push_back(x);
  }
  c.planted = std::move(kept);
}

}  // namespace

void tidy(Case& c) {
  Problem& p = c.problem;
  if (p.key_lengths) p.key_lengths->resize(static_cast<size_t>(std::max<int64_t>(p.batch, 0)), p.seq_k);
  if (!p.key_lengths) c.nan_beyond_lengths = false;
  if (!p.causal && p.window_left < 0 && p.window_right < 0) p.align = ATTN_TOP_LEFT;
  if (p.window_left < 0) p.window_left = -1;
  if (p.window_right < 0) p.window_right = -1;
  if (p.bias) {
    tidy(p.bias->finite);
    const bool random = p.bias->kind != BiasKind::kZero && p.bias->kind != BiasKind::kAlibi &&
                        p.bias->kind != BiasKind::kMasking;
    if (!random) p.bias->seed = 0;
  }
  if (p.mask) tidy(p.mask->visible);
  for (Fill* f : {&c.q, &c.k, &c.v}) {
    if (!has_seed(f->kind)) f->seed = 0;
    if (f->kind == FillKind::kZero) f->exponent = 0;
  }
  tidy_planted(c);
  const auto absent = [&](TensorId t, bool there) {
    if (!there) c.layout[static_cast<size_t>(t)] = TensorLayout{};
  };
  absent(TensorId::kLse, c.want_lse);
  absent(TensorId::kBias, p.bias.has_value());
  absent(TensorId::kMask, p.mask.has_value());
  absent(TensorId::kKeyLengths, p.key_lengths.has_value());
  if (c.calls.empty()) c.calls.push_back(Call{});
}

}  // namespace attnfuzz
