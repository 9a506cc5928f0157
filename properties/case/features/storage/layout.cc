// The place and strides of each tensor in memory.
#include <algorithm>
#include <bit>

#include "properties/case/features/feature.h"
#include "properties/case/places/far_blocks.h"
#include "properties/case/places/geometry.h"
#include "properties/case/places/spread.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kLayoutFields = [](auto& c) { return std::tie(c.layout); };

constexpr int64_t kMostOffset = 1 << 20;
constexpr int64_t kMostStep = 1 << 12;

TensorLayout some_layout(Rng& rng, bool odd) {
  static constexpr std::array<uint8_t, 3> kOrders[] = {{0, 1, 2}, {0, 2, 1}, {2, 0, 1}, {1, 0, 2}};
  TensorLayout layout;
  if (rng.percent(40)) layout.order = rng.pick<std::array<uint8_t, 3>>(kOrders);
  if (rng.percent(35))
    layout.offset = rng.coin() ? rng.pick<int64_t>({1, 2, 3, 4, 7, 8, 16}) : rng.range(1, 64);
  if (rng.percent(35)) layout.row_gap = rng.pick<int64_t>({1, 2, 8, 13, 64});
  layout.junk_unit_strides = rng.percent(20);
  if (rng.percent(35)) layout.placement = Placement::kPageEnd;
  if (!odd) return layout;
  if (rng.percent(30)) layout.step = rng.pick<int64_t>({2, 3, 4, 8});
  layout.across = rng.percent(20);
  if (rng.percent(40)) layout.backwards = rng.coin() ? rng.pick<int64_t>({1, 2, 4, 8}) : rng.range(1, 15);
  return layout;
}

int64_t blocks_of(const Geometry& g) {
  for (const int n : g.order) {
    if (g.size[n] > 1) return g.size[n];
  }
  return 1;
}

// Makes offsets of a tensor reach 2^31 elements, if it has a dimension to spread and its slot has room.
void spread(const DrawContext& context, Case& c, TensorId t, int64_t by) {
  if (!is_present(c, t)) return;
  TensorLayout& layout = layout_of(c, t);
  if (layout.scattered()) return;
  const TensorLayout before = layout;
  layout.spread = by;
  const auto g = geometry(c, t);
  const bool slow = context.config.in_batches && g && blocks_of(*g) > kMostFarBlocks;
  if (!g || g->span_bytes < by * g->element_bytes || (slow && !context.rng.percent(kPercentOfMoreFarBlocks)))
    layout = before;
}

// Spreads most of the tensors that can be spread.
void spread_some(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  const int64_t far = draw_far_spread(rng);
  const int64_t by = far * (rng.coin() ? 2 : 1);
  for (const TensorId t : kSpreadTensors) {
    if (rng.percent(60)) spread(context, c, t, by);
  }
}

void draw_layout(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  if (rng.percent(35)) {
    const bool odd = rng.percent(8);
    for (const TensorSpec& spec : kTensors) {
      if (!spec.strided() || !in_problem(spec, c.problem.features)) continue;
      if (rng.percent(40)) layout_of(c, spec.id) = some_layout(rng, odd);
    }
  } else if (rng.percent(14)) {
    // One tensor alone gets an odd stride of heads or batch entries. A kernel may check the other tensors'
    // strides only.
    const auto t = rng.pick<TensorId>(kMatrixTensors);
    spread(context, c, t, draw_far_spread(rng) | 1);
    return;
  }
  // A spread takes gigabytes of address space, but few pages of memory. Few cases have a mask or a bias, so
  // these are spread more often.
  if (rng.percent(c.problem.mask || c.problem.bias ? 25 : 9)) spread_some(context, c);
}

// True if an element lies more than 2^31 elements from the first.
bool is_far(const Case& c) {
  for (const TensorSpec& spec : kTensors) {
    const bool spread = layout_of(c, spec.id).spread != 0;
    if (!spread || spec.role == Role::kScratch || !is_present(c, spec.id)) continue;
    const auto g = geometry(c, spec.id);
    if (g && g->span_bytes / g->element_bytes > int64_t{1} << 31) return true;
  }
  return false;
}

template <TensorId T>
constexpr auto kToggleName = [] {
  constexpr std::string_view front = "the layout of ", name = name_of(T);
  std::array<char, front.size() + name.size() + 1> text = {};
  std::ranges::copy(name, std::ranges::copy(front, text.begin()).out);
  return text;
}();

template <size_t T>
constexpr ShrinkToggle kLayoutToggle = whole_toggle<[](auto& c) { return std::tie(c.layout[T]); }>(
    kToggleName<static_cast<TensorId>(T)>.data(),
    fill_of(static_cast<TensorId>(T)) ? Trait::kInputLayout : Trait::kLayout);

constexpr auto kToggles = []<size_t... T>(std::index_sequence<T...>) {
  return ShrinkToggleList{kLayoutToggle<T>...};
}(std::make_index_sequence<kTensorCount>());

void say_layouts(const Case& c, Sentence& words) {
  const TensorLayout usual;
  for (size_t t = 0; t < kTensorCount; ++t) {
    const TensorLayout& l = c.layout[t];
    if (l == usual) continue;
    std::string text = kTensorNames[t];
    if (l.order != usual.order) {
      text += " ordered ";
      for (const uint8_t axis : l.order) text += "bhs"[axis % 3];
    }
    if (l.offset != 0) text += cat(" offset ", l.offset);
    if (l.row_gap != 0) text += cat(" row gap ", l.row_gap);
    if (l.spread != 0) text += cat(" spread ", l.spread);
    if (l.across) text += " columns across rows";
    if (l.step != 1) text += cat(" step ", l.step);
    if (l.backwards != 0) {
      text += " backwards in ";
      for (size_t n = 0; n < 4; ++n) {
        if ((l.backwards >> n & 1) != 0) text += "bhsd"[n];
      }
    }
    if (l.junk_unit_strides) text += " junk unit strides";
    if (l.placement == Placement::kPageEnd) text += " at a page's end";
    words.push_back(text);
  }
}

void layout_cost(const Case& c, Cost& cost) {
  const TensorLayout usual;
  cost.at(Rank::kLayout);
  for (const TensorLayout& l : c.layout) {
    const int parts = int{l.order != usual.order} + int{l.offset != 0} + int{l.row_gap != 0} +
                      int{l.spread != 0} + int{l.junk_unit_strides} + int{l.placement != usual.placement} +
                      int{l.step != 1} + int{l.across} + std::popcount(static_cast<uint64_t>(l.backwards));
    cost.count(parts);
    cost.add(parts);
    // These three come first, because a gap or another order is simpler.
    cost.add(l.backwards);
    cost.add(l.across);
    cost.distance(l.step, 1);
    cost.add(l.order[0] * 9 + l.order[1] * 3 + l.order[2] - 5);
    cost.add(spread_is_far(l));
    cost.distance(l.offset, 0);
    cost.distance(l.row_gap, 0);
    cost.distance(l.spread, 0);
    cost.add(l.junk_unit_strides);
    cost.add(static_cast<int>(l.placement));
  }
}

Complaint bad_layout(const TensorLayout& layout) {
  std::array<uint8_t, 3> sorted = layout.order;
  std::ranges::sort(sorted);
  if (sorted != std::array<uint8_t, 3>{0, 1, 2}) return ".order is not an order of 0, 1 and 2";
  if (auto why = outside(".offset", layout.offset, 0, kMostOffset)) return why;
  if (auto why = outside(".row_gap", layout.row_gap, 0, kMostGap)) return why;
  if (auto why = outside(".step", layout.step, 1, kMostStep)) return why;
  if (auto why = outside(".backwards", layout.backwards, 0, 15)) return why;
  if (layout.scattered() && layout.spread != 0)
    return ".spread is not for columns that lie apart from one another";
  return outside(".spread", layout.spread, 0, int64_t{1} << 34);
}

}  // namespace

extern constinit const Feature layout = checked({
    .without = {kShrinkIntegers, kCanonicalSeeds, kNumbers, kMutations, kRefusals},
    .shrink_toggles = {16, kToggles},
    .alternatives = {{"layout",
                      is_usual<kLayoutFields>,
                      {[](Case& c) {
                         for (TensorLayout& l : c.layout) l.row_gap = 8;
                       },
                       [](Case& c) {
                         for (TensorLayout& l : c.layout) l.order = {0, 2, 1};
                       }}}},
    .cost = layout_cost,
    .draw = {Phase::kMemory, draw_layout},
    .crossover_groups = {{"layout", 5, take<kLayoutFields>}},
    .tags = {{"layout", [](const Tiled& x) { return is_set<kLayoutFields>(x.c); }, TagUse::kBoth},
             {"page end",
              [](const Tiled& x) {
                return std::ranges::any_of(
                    x.c.layout, [](const TensorLayout& l) { return l.placement == Placement::kPageEnd; });
              }},
             {"offsets > 2^31", [](const Tiled& x) { return is_far(x.c); }},
             {"scattered columns",
              [](const Tiled& x) { return std::ranges::any_of(x.c.layout, &TensorLayout::scattered); }},
             {"negative strides",
              [](const Tiled& x) {
                return std::ranges::any_of(x.c.layout, [](const TensorLayout& l) { return l.backwards != 0; });
              }}},
    .words = {{Section::kSurroundings, 0, say_layouts}},
    // A tensor that is absent has no layout.
    .tidy =
        [](Case& c) {
          for (size_t t = 0; t < kTensorCount; ++t) {
            if (!is_present(c, static_cast<TensorId>(t))) c.layout[t] = TensorLayout{};
            if (c.layout[t].scattered()) c.layout[t].spread = 0;
          }
        },
    .illegal = [](const Case& c) -> Complaint {
      for (size_t t = 0; t < kTensorCount; ++t) {
        if (auto why = of_field(bad_layout(c.layout[t]), "layout.", kTensorNames[t])) return why;
      }
      return std::nullopt;
    },
});

}  // namespace attnfuzz::feature
