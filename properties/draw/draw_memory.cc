#include <algorithm>

#include "properties/case/geometry.h"
#include "properties/draw/draw.h"

namespace attnfuzz {
namespace {

TensorLayout some_layout(Dice& dice) {
  static constexpr std::array<uint8_t, 3> kOrders[] = {{0, 1, 2}, {0, 2, 1}, {2, 0, 1}, {1, 0, 2}};
  TensorLayout layout;
  if (dice.percent(40)) layout.order = dice.pick<std::array<uint8_t, 3>>(kOrders);
  if (dice.percent(35)) layout.offset = dice.pick<int64_t>({1, 2, 3, 4, 7, 8, 16});
  if (dice.percent(35)) layout.row_gap = dice.pick<int64_t>({1, 2, 8, 13, 64});
  layout.junk_unit_strides = dice.percent(20);
  if (dice.percent(35)) layout.placement = Placement::kPageEnd;
  return layout;
}

// Makes offsets of a tensor reach 2^31 elements; false if it has no dimension to
// spread that way, or its slot no room for it.
bool spread(Case& c, TensorId t, int64_t by) {
  if (!is_present(c, t)) return false;
  TensorLayout& layout = c.layout[static_cast<size_t>(t)];
  const TensorLayout before = layout;
  layout.spread = by;
  const auto g = geometry(c, t);
  if (g && g->span_bytes >= by * g->element_bytes) return true;
  layout = before;
  return false;
}

// Most of the tensors that can be.
void spread_some(Dice& dice, Case& c) {
  // What an offset of 32 bits makes of the larger ones lies far from every row.
  const int64_t beyond = dice.pick<int64_t>({0, 1 << 20, (1 << 20) + 1});
  const int64_t by = ((int64_t{1} << 31) + beyond) * (dice.coin() ? 2 : 1);
  for (const TensorId t :
       {TensorId::kQ, TensorId::kK, TensorId::kV, TensorId::kO, TensorId::kBias, TensorId::kMask}) {
    if (dice.percent(60)) spread(c, t, by);
  }
}

}  // namespace

void draw_memory(const Aim& aim, Dice& dice, Case& c) {
  if (dice.percent(35)) {
    for (int t = 0; t < kTensorCount; ++t) {
      const auto tensor = static_cast<TensorId>(t);
      if (tensor == TensorId::kKeyLengths || tensor == TensorId::kWorkspace) continue;
      if (dice.percent(40)) c.layout[t] = some_layout(dice);
    }
  }
  // Gigabytes of address space, but a few pages of memory. Few cases have a mask or a bias.
  if (dice.percent(c.problem.mask || c.problem.bias ? 25 : 9)) spread_some(dice, c);
  c.prefill = dice.percent(75) ? Prefill::kNan : Prefill::kHuge;
  c.want_lse = !dice.percent(8);

  struct Device {
    int32_t sm_count, compute_capability;
    int64_t shared_memory_limit;
  };
  const Device device =
      dice.pick<Device>({{132, 90, 232448}, {108, 80, 166912}, {16, 86, 101376}, {1, 80, 166912}});
  c.env.sm_count = device.sm_count;
  c.env.compute_capability = device.compute_capability;
  c.env.shared_memory_limit = device.shared_memory_limit;
  c.env.schedule_seed = dice.percent(25) ? 0 : dice.bits() % 65536;
  if (aim.variants > 0) {
    c.env.variant =
        has_many_heads(c.problem) || dice.percent(85) ? 1 : static_cast<int32_t>(dice.range(0, aim.variants));
  } else {
    c.env.variant = 0;
  }

  if (dice.percent(10) && !has_many_heads(c.problem)) {
    const int64_t calls = dice.range(1, 3);
    c.calls.clear();
    for (int64_t i = 0; i < calls; ++i) c.calls.push_back({dice.coin(), static_cast<int>(dice.range(0, 1))});
  }
}

}  // namespace attnfuzz
