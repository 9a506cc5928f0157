#include "tests/properties/support/random_case.h"

#include <initializer_list>

#include "properties/data/fills.h"

namespace attnfuzz {
namespace {

class Draw {
 public:
  explicit Draw(uint64_t seed) : seed_(seed) {}
  uint64_t bits() { return mix(seed_, ++count_, 0, 0, 0); }
  int64_t upto(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n + 1)); }
  bool one_in(int64_t n) { return upto(n - 1) == 0; }
  template <typename T>
  T of(std::initializer_list<T> values) {
    return values.begin()[static_cast<size_t>(upto(static_cast<int64_t>(values.size()) - 1))];
  }

 private:
  uint64_t seed_, count_ = 0;
};

int64_t length(Draw& draw) {
  if (draw.one_in(12)) return draw.upto(1);
  if (draw.one_in(3)) return draw.upto(300);
  return draw.of<int64_t>({1, 2, 3, 4}) * 64 + draw.of<int64_t>({-1, 0, 1, 2, 3});
}

Fill fill(Draw& draw) {
  return {.kind = static_cast<FillKind>(draw.upto(kFillKinds - 1)),
          .exponent = draw.one_in(4) ? static_cast<int>(draw.upto(8)) - 4 : 0,
          .seed = draw.bits()};
}

Pattern pattern(Draw& draw) {
  return {.kind = static_cast<PatternKind>(draw.upto(kPatternKinds - 1)),
          .parameter = 1 + draw.upto(70),
          .seed = draw.bits()};
}

}  // namespace

Case random_case(uint64_t seed) {
  Draw draw(seed ^ 0x5eed);
  Case c;
  Problem& p = c.problem;
  p.dtype = draw.of<int32_t>({ATTN_F16, ATTN_BF16});
  p.batch = 1 + draw.upto(2);
  p.heads_kv = 1 + draw.upto(2);
  p.heads_q = p.heads_kv * draw.of<int64_t>({1, 2, 3, 7});
  p.seq_q = length(draw);
  p.seq_k = length(draw);
  p.dim_qk = draw.of<int64_t>({4, 16, 32, 64, 72, 80, 128});
  p.dim_v = draw.one_in(3) ? draw.of<int64_t>({8, 40, 64, 100}) : p.dim_qk;
  p.scale = draw.of<float>({1.0f, 0.125f, 0.088388346f});
  if (draw.one_in(4)) p.softcap = draw.of<float>({1.0f, 30.0f, 50.0f});
  p.causal = draw.one_in(2);
  p.align = draw.of<int32_t>({ATTN_TOP_LEFT, ATTN_BOTTOM_RIGHT});
  if (draw.one_in(4)) p.window_left = draw.upto(100);
  if (draw.one_in(4)) p.window_right = draw.upto(100);
  if (draw.one_in(3)) {
    p.key_lengths.emplace();
    for (int64_t b = 0; b < p.batch; ++b) p.key_lengths->push_back(draw.upto(p.seq_k));
    c.nan_beyond_lengths = draw.one_in(2);
  }
  if (draw.one_in(4)) {
    p.bias = Bias{.dtype = draw.of<int32_t>({ATTN_F16, ATTN_BF16, ATTN_F32}),
                  .kind = static_cast<BiasKind>(draw.upto(kBiasKinds - 1)),
                  .finite = pattern(draw),
                  .broadcast = {.batch = draw.one_in(2), .head = draw.one_in(2), .query = false},
                  .seed = draw.bits()};
  }
  if (draw.one_in(4)) {
    p.mask =
        Mask{.visible = pattern(draw), .broadcast = {.batch = draw.one_in(2), .head = false, .query = false}};
  }
  if (draw.one_in(3)) p.num_splits = 1 + draw.upto(7);
  c.q = fill(draw);
  c.k = fill(draw);
  c.v = fill(draw);
  if (draw.one_in(5) && p.seq_k > 0) {
    c.planted.push_back({.tensor = TensorId::kV,
                         .b = draw.upto(p.batch - 1),
                         .h = draw.upto(p.heads_kv - 1),
                         .s = draw.upto(p.seq_k - 1),
                         .d = draw.upto(p.dim_v - 1),
                         .bits = p.dtype == ATTN_F16 ? 0x7e00u : 0x7fc0u});
  }
  for (const TensorId t : {TensorId::kQ, TensorId::kK, TensorId::kV, TensorId::kO}) {
    TensorLayout& l = c.layout[static_cast<size_t>(t)];
    if (draw.one_in(4)) l.order = draw.of<std::array<uint8_t, 3>>({{0, 1, 2}, {0, 2, 1}, {1, 0, 2}});
    if (draw.one_in(5)) l.row_gap = draw.upto(16);
    if (draw.one_in(5)) l.offset = draw.upto(16);
    if (draw.one_in(8)) l.placement = Placement::kPageEnd;
    if (draw.one_in(12)) l.step = 1 + draw.upto(3);
    if (draw.one_in(12)) l.across = true;
    if (draw.one_in(12)) l.backwards = draw.upto(15);
  }
  if (draw.one_in(4)) c.calls.resize(static_cast<size_t>(1 + draw.upto(2)));
  for (Call& call : c.calls) call.dirty_workspace = draw.one_in(3);
  if (draw.one_in(3)) c.env.schedule_seed = draw.bits();
  if (draw.one_in(3)) c.env.variant = 2;
  if (draw.one_in(4)) c.env.sm_count = draw.of({1, 16, 108});
  if (draw.one_in(5)) c.poison = Poison::kHuge;
  if (draw.one_in(5)) c.want_lse = false;
  return c;
}

}  // namespace attnfuzz
