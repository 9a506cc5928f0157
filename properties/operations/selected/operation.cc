// Attention of each query over the keys of listed blocks: O and LSE from Q, K, V and the lists
// (ATTN_FEATURE_SELECTED). Native sparse attention and sparse decoding do this after they have chosen blocks or
// tokens.
#include "properties/operations/operation.h"

#include <algorithm>
#include <limits>

#include "properties/case/case.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/layouts.h"
#include "properties/operations/selected/give_lists.h"
#include "reference/selected.h"

namespace attnfuzz::operations {
namespace {

using enum TensorId;

constexpr TensorId kInputsOfSelected[] = {kQ, kK, kV, kKeyLengths, kIndices, kCuQ, kCuK};
constexpr Output kOutputsOfSelected[] = {
    {.tensor = kO},
    {.tensor = kLse, .logarithm = true, .optional = true, .dead = -std::numeric_limits<double>::infinity()},
};

// Numbers that depend only on the drawn case.
class Dice {
 public:
  explicit Dice(const Case& c) {
    for (const uint64_t part : {c.q.seed, c.k.seed, c.v.seed, static_cast<uint64_t>(c.problem.seq_q),
                                static_cast<uint64_t>(c.problem.seq_k), c.env.schedule_seed})
      mix(part);
  }
  uint64_t bits() {
    mix(1);
    return state_ >> 16;
  }
  int64_t range(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low + 1));
  }
  bool percent(int64_t n) { return range(0, 99) < n; }

 private:
  void mix(uint64_t part) {
    state_ = (state_ ^ part) * 0x9e3779b97f4a7c15;
    state_ ^= state_ >> 29;
  }
  uint64_t state_ = 0x5e1ec7ed;
};

// The number of indices of a list: as many as there are blocks, more, a few, or any number up to all.
int64_t draw_select(Dice& dice, int64_t blocks, int64_t most) {
  const int64_t all = std::max<int64_t>(blocks, 1);
  int64_t select = dice.range(1, all);
  switch (dice.range(0, 9)) {
    case 0:
    case 1:
      select = all;
      break;
    case 2:
      select = all + dice.range(1, 9);
      break;
    case 3:
      select = dice.range(1, 2);
      break;
    case 4:
    case 5:
      select = dice.range(1, 16);
      break;
    default:
      break;
  }
  return std::clamp<int64_t>(select, 1, most);
}

Selection draw_selection(Dice& dice, const Problem& p) {
  constexpr int64_t kBlocks[] = {1, 1, 1, 16, 16, 16, 16, 64, 64, 32, 8, 2, 3, 7, 48, 100};
  // Indices of all lists, and of one.
  constexpr double kMostIndices = 0x1p20;
  constexpr int64_t kMostOfList = 512;
  Selection selection;
  selection.block = kBlocks[dice.range(0, std::size(kBlocks) - 1)];
  const int64_t blocks = p.seq_k / selection.block + (p.seq_k % selection.block != 0);
  const double lists = std::max(
      static_cast<double>(p.batch) * static_cast<double>(p.heads_kv) * static_cast<double>(p.seq_q), 1.0);
  const int64_t most = std::clamp<int64_t>(static_cast<int64_t>(kMostIndices / lists), 1, kMostOfList);
  selection.select = draw_select(dice, blocks, most);
  constexpr SelectionKind kKinds[] = {
      SelectionKind::kFirst,    SelectionKind::kRecent,   SelectionKind::kSpread,
      SelectionKind::kSpread,   SelectionKind::kFirstOwn, SelectionKind::kFirstOwn,
      SelectionKind::kRepeated, SelectionKind::kAnywhere, SelectionKind::kAnywhere};
  selection.kind = kKinds[dice.range(0, std::size(kKinds) - 1)];
  if (dice.percent(45)) selection.holes = dice.percent(25) ? dice.range(13, 16) : dice.range(1, 12);
  selection.leading = dice.percent(selection.holes > 0 ? 40 : 15);
  if (dice.percent(20)) selection.empty = dice.range(1, 6);
  if (dice.percent(40)) selection.order = dice.percent(40) ? 1 : 2 + dice.bits() % 64;
  if (selection.block > 1 && dice.percent(12)) {
    selection.tokens = true;
    selection.select = std::clamp<int64_t>(selection.select, 1, std::max<int64_t>(most / selection.block, 1));
  }
  selection.seed = 1 + dice.bits() % 65535;
  return selection;
}

void shape(Case& c, uint64_t kernel_features) {
  if ((c.problem.features & ATTN_FEATURE_SELECTED) == 0) give_lists(c, ATTN_FEATURE_SELECTED, kernel_features);
}

}  // namespace

void give_lists(Case& c, uint64_t operation, uint64_t kernel_features) {
  const Case drawn = c;
  Dice dice(drawn);
  Problem& p = c.problem;
  p.features |= operation;
  // Lists have no window, mask or bias. Cases with one become causal, and so do half of the others.
  const bool hidden = p.window_left >= 0 || p.window_right >= 0 || p.mask || p.bias;
  if (hidden || dice.percent(50)) p.causal = true;
  if (!drawn.problem.causal && p.causal && dice.percent(60)) p.align = ATTN_BOTTOM_RIGHT;
  p.selection = draw_selection(dice, p);
  tidy(c);
  const bool narrow = (kernel_features & ATTN_FEATURE_INDEX32) != 0;
  p.index_dtype = narrow && dice.percent(55) ? ATTN_INDEX_32 : ATTN_INDEX_64;
  layout_of(c, kIndices) = layout_of(drawn, dice.percent(50) ? kQ : kO);
  layout_of(c, kIndices).spread = 0;
  tidy(c);
  drop_misfits(c, {kIndices, kQ, kK, kV, kO, kLse});
}

extern const Operation selected = {.name = "selected",
                                   .feature = ATTN_FEATURE_SELECTED,
                                   .inputs = kInputsOfSelected,
                                   .outputs = kOutputsOfSelected,
                                   .evaluate = evaluate_selected,
                                   .known = kSelectedKnows,
                                   .shape = shape};

}  // namespace attnfuzz::operations
