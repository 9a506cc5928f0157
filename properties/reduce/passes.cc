// The order of the passes, and the passes over features. passes_sizes.cc lowers sizes; passes_data.cc and
// passes_planted.cc simplify values.
#include "properties/reduce/passes.h"

#include "properties/case/features/cost.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/geometry.h"
#include "properties/case/places/spread.h"

namespace attnfuzz {
namespace {

// `pattern` finds the pattern in a case.
template <typename Find>
void shrink_pattern(Search& s, Find&& pattern) {
  const Borders borders = s.borders();
  const Pattern now = *pattern(s.best());
  for (int kind = 0; kind <= static_cast<int>(now.kind); ++kind) {
    for (const int64_t parameter : {int64_t{1}, int64_t{2}, borders.tile_q, borders.tile_k, now.parameter}) {
      for (const uint64_t seed : {uint64_t{0}, now.seed}) {
        const Pattern candidate{static_cast<PatternKind>(kind), parameter, seed};
        if (change(s, [&](Case& c) { *pattern(c) = candidate; })) return;
      }
    }
  }
  shrink_seed(s, now.seed, [&](Case& c, uint64_t seed) { pattern(c)->seed = seed; });
}

template <typename Find>
void shrink_broadcast(Search& s, Find&& broadcast) {
  change(s, [&](Case& c) { *broadcast(c) = Broadcast{}; });
  change(s, [&](Case& c) { broadcast(c)->batch = false; });
  change(s, [&](Case& c) { broadcast(c)->head = false; });
  change(s, [&](Case& c) { broadcast(c)->query = false; });
}

// To reach a single query, its row of the bias must get the values with which a later row fails. Tries other
// seeds, kinds and formats with seq_q = 1.
void shrink_bias_values(Search& s) {
  const Bias now = *s.best().problem.bias;
  const auto attempt = [&](BiasKind kind, int32_t dtype, int64_t seq_q, uint64_t seed) {
    return change(s, [&](Case& c) {
      Bias& bias = *c.problem.bias;
      if (kind != now.kind) bias.finite = {};
      bias.kind = kind;
      bias.dtype = dtype;
      bias.seed = seed;
      c.problem.seq_q = seq_q;
    });
  };
  for (const BiasKind kind : {BiasKind::kRowConstant, BiasKind::kGaussian, BiasKind::kVeryNegative}) {
    if (kind > now.kind) break;
    for (const int64_t seq_q : {int64_t{1}, s.best().problem.seq_q}) {
      for (const int32_t dtype : {int32_t{ATTN_F32}, int32_t{ATTN_F16}, now.dtype}) {
        for (uint64_t seed = 0; seed < kSeedsTried; ++seed) {
          if (attempt(kind, dtype, seq_q, seed)) return;
        }
      }
    }
  }
}

}  // namespace

void turn_off_toggles(Search& s) {
  for (const ShrinkToggle& feature : shrink_toggles()) {
    if (feature.present(s.best())) change(s, feature.remove);
  }
}

void shrink_calls(Search& s) {
  for (size_t i = 0; i < s.best().calls.size() && s.best().calls.size() > 1; ++i) {
    if (change(s, [&](Case& c) { c.calls = {Call{c.calls[i]}}; })) break;
  }
  for (size_t i = s.best().calls.size(); i-- > 0 && s.best().calls.size() > 1;) {
    change(s, [&](Case& c) { c.calls.erase(c.calls.begin() + static_cast<std::ptrdiff_t>(i)); });
  }
  for (size_t i = 0; i < s.best().calls.size(); ++i) {
    if (s.best().calls[i].dirty_workspace) change(s, [&](Case& c) { c.calls[i].dirty_workspace = false; });
    if (s.best().calls[i].stream != 0) change(s, [&](Case& c) { c.calls[i].stream = 0; });
  }
}

void shrink_patterns(Search& s) {
  if (s.best().sides != Pattern{}) shrink_pattern(s, [](auto& c) { return &c.sides; });
  if (s.best().problem.mask) {
    shrink_pattern(s, [](auto& c) { return &c.problem.mask->visible; });
    shrink_broadcast(s, [](Case& c) { return &c.problem.mask->broadcast; });
  }
  if (s.best().problem.bias) {
    for (int kind = 0; kind < static_cast<int>(s.best().problem.bias->kind); ++kind) {
      if (change(s, [&](Case& c) { c.problem.bias->kind = static_cast<BiasKind>(kind); })) break;
    }
    for (const int32_t dtype : {ATTN_F32, ATTN_F16}) {
      if (change(s, [&](Case& c) { c.problem.bias->dtype = dtype; })) break;
    }
    shrink_pattern(s, [](auto& c) { return &c.problem.bias->finite; });
    shrink_broadcast(s, [](Case& c) { return &c.problem.bias->broadcast; });
    shrink_bias_values(s);
    shrink_seed(s, s.best().problem.bias->seed, [](Case& c, uint64_t seed) { c.problem.bias->seed = seed; });
  }
  // Causality is a window that ends at the diagonal.
  if (s.best().problem.window_right == 0) {
    change(s, [](Case& c) {
      c.problem.causal = true;
      c.problem.window_right = -1;
    });
  }
  if (s.best().problem.align != ATTN_TOP_LEFT) {
    change(s, [](Case& c) { c.problem.align = ATTN_TOP_LEFT; });
  }
  for (const float value : {1.0f, 2.0f, 4.0f, 16.0f}) {
    if (s.best().problem.softcap != 0 && change(s, [&](Case& c) { c.problem.softcap = value; })) break;
  }
  for (const float value : {0.0f, 0.5f, 2.0f, 0.25f, 0.125f, -1.0f}) {
    if (s.best().problem.scale != 1 && change(s, [&](Case& c) { c.problem.scale = value; })) break;
  }
}

// A kernel that misses a far row reads other bytes. The distance decides which bytes, and so which fill makes
// them differ from the row's. Tries several distances and fills, the plainest first.
void shrink_far_rows(Search& s, size_t t) {
  // At a page's end those bytes are unmapped, whatever the distance.
  change(s, [&](Case& c) {
    const int64_t spread = c.layout[t].spread;
    c.layout[t] = {.spread = spread, .placement = Placement::kPageEnd};
  });
  constexpr int64_t kBeside = 1 << 12;  // elements: a wrapped address then lies behind the redzone
  for (const int64_t border : {int64_t{1} << 24, int64_t{1} << 30, int64_t{1} << 31}) {
    for (const int64_t spread : {border, border + kBeside}) {
      for (const Data& data : regimes()) {
        const auto plainer = [&](Case& c) {
          c = with_data(c, data);
          c.layout[t].spread = spread;
          if (c.problem.mask) c.problem.mask->visible = {};
        };
        if (change(s, plainer)) break;
      }
    }
  }
}

void shrink_layouts(Search& s) {
  // In elements: borders of alignment, of 24-bit products, of 2 GiB of 16-bit elements, and of 31 bits.
  const std::vector<int64_t> worth = {4, 8, 64, 1 << 24, (1 << 24) + 1, 1 << 30, int64_t{1} << 31};
  change(s, [](Case& c) { c.layout = {}; });
  // With 1 or 2 columns, a wrong stride may show in the usual layout.
  for (const int64_t dim_qk : {1, 2}) {
    for (const int64_t dim_v : {1, 2}) {
      if (s.best().layout == Case{}.layout) break;
      change(s, [&](Case& c) {
        c.layout = {};
        c.problem.dim_qk = dim_qk;
        c.problem.dim_v = dim_v;
      });
    }
  }
  for (const TensorId t : kStoredOnceTensors) {
    if ((s.best().once.*once_of(t)).batch) change(s, [&](Case& c) { (c.once.*once_of(t)).batch = false; });
    if ((s.best().once.*once_of(t)).head) change(s, [&](Case& c) { (c.once.*once_of(t)).head = false; });
  }
  for (size_t t = 0; t < kTensorCount; ++t) {
    const TensorLayout usual;
    if (s.best().layout[t] == usual) continue;
    change(s, [&](Case& c) { c.layout[t].order = usual.order; });
    change(s, [&](Case& c) { c.layout[t].junk_unit_strides = false; });
    change(s, [&](Case& c) { c.layout[t].across = false; });
    // A column step of 2 is simpler than `across` or than columns in reverse order.
    if (s.best().layout[t].across || (s.best().layout[t].backwards & 8) != 0) {
      change(s, [&](Case& c) {
        c.layout[t].across = false;
        c.layout[t].backwards &= ~8;
        c.layout[t].step = 2;
      });
    }
    for (const int64_t bit : {8, 4, 2, 1}) {
      if ((s.best().layout[t].backwards & bit) != 0) change(s, [&](Case& c) { c.layout[t].backwards &= ~bit; });
    }
    lower(s, {.now = s.best().layout[t].step, .least = 1, .worth_trying = {2}},
          [&](Case& c, int64_t value) { c.layout[t].step = value; });
    change(s, [&](Case& c) { c.layout[t].placement = usual.placement; });
    if (s.best().layout[t].spread != 0) shrink_far_rows(s, t);
    // The least spread is one element more than the step without a spread.
    std::vector<int64_t> spreads = worth;
    if (!spread_is_far(s.best().layout[t]))
      spreads.insert(spreads.begin(), step_without_spread(s.best(), static_cast<TensorId>(t)) + 1);
    for (int64_t TensorLayout::* field :
         {&TensorLayout::offset, &TensorLayout::row_gap, &TensorLayout::spread}) {
      lower(s,
            {.now = s.best().layout[t].*field,
             .least = 0,
             .worth_trying = field == &TensorLayout::spread ? spreads : worth},
            [&](Case& c, int64_t value) { c.layout[t].*field = value; });
    }
  }
}

void shrink(Search& s) {
  const auto quick = [&] {
    turn_off_toggles(s);
    shrink_calls(s);
    shrink_batch(s);
    shrink_heads(s);
    shrink_lengths(s);
    shrink_dims(s);
    shrink_numbers(s);
    shrink_patterns(s);
    shrink_planted(s);
    shrink_layouts(s);
    shrink_fills(s);
    shrink_seeds(s);
  };
  const auto until_still = [&](auto&& pass) {
    bool moved = false;
    while (!s.out_of_time()) {
      const std::vector<int64_t> before = complexity(s.best());
      pass();
      if (complexity(s.best()) == before) break;
      moved = true;
    }
    return moved;
  };
  until_still([&] {
    until_still(quick);
    shrink_planted_afresh(s);
    shrink_pairs(s);
    shrink_with_richer_data(s);
    shrink_data_together(s);
    shrink_other_fills(s);
  });
}

}  // namespace attnfuzz
