// Chooses blocks by their scores (ATTN_FEATURE_NSA_SELECT): the stage of native sparse attention between the
// scores of blocks and attention over listed blocks. There is one right result, also in the case of ties.
#include "properties/operations/operation.h"

#include <algorithm>

#include "properties/case/case.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/layouts.h"
#include "properties/case/places/packed.h"
#include "properties/case/places/selection.h"
#include "properties/operations/shape_dice.h"
#include "reference/nsa/choice.h"

namespace attnfuzz::operations {
namespace {

using enum TensorId;

constexpr TensorId kInputsOfChoice[] = {kScores, kKeyLengths, kCuQ, kCuK};
constexpr Output kOutputsOfChoice[] = {{.tensor = kChosen, .kind = OutputKind::kExact}};

uint64_t dice(const Case& drawn, uint64_t salt) { return number_of(drawn, salt * kSplitMixStep + 0x5e1ec7); }
int64_t range(const Case& c, uint64_t salt, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(dice(c, salt) % static_cast<uint64_t>(high - low + 1));
}

// In a third of the cases many scores tie: small integers, zeros of both signs, or all equal.
Fill scores_of(const Case& c) {
  constexpr Fill kFills[] = {{.kind = FillKind::kSmallInt},  {.kind = FillKind::kSmallInt},
                             {.kind = FillKind::kConstant},  {.kind = FillKind::kSignedZero},
                             {.kind = FillKind::kGaussian},  {.kind = FillKind::kGaussian},
                             {.kind = FillKind::kUniform},   {.kind = FillKind::kUniform, .exponent = -12},
                             {.kind = FillKind::kNegative},  {.kind = FillKind::kHuge},
                             {.kind = FillKind::kSubnormal}, {.kind = FillKind::kPosition}};
  Fill fill = kFills[dice(c, 1) % std::size(kFills)];
  if (fill.kind != FillKind::kConstant && fill.kind != FillKind::kPosition) fill.seed = 1 + dice(c, 2) % 65535;
  return fill;
}

// In most cases blocks are small, so that there are many: a choice among few blocks shows little.
void draw_blocks(const Case& drawn, Problem& p) {
  constexpr int64_t kSizes[] = {1, 1, 1, 1, 2, 3, 4, 8, 16, 32, 64}, kMostBlocks = 2048;
  Selection& selection = p.selection;
  selection = {};
  selection.block = kSizes[dice(drawn, 3) % std::size(kSizes)];
  while (p.blocks() > kMostBlocks) selection.block *= 2;
  const int64_t blocks = std::max<int64_t>(p.blocks(), 1);
  switch (dice(drawn, 4) % 6) {
    case 0:
      selection.select = blocks;
      break;
    case 1:
      selection.select = blocks + range(drawn, 5, 1, 9);
      break;
    case 2:
      selection.select = range(drawn, 5, 1, std::min<int64_t>(blocks, 3));
      break;
    default:
      selection.select = range(drawn, 5, 1, std::min<int64_t>(blocks, 64));
  }
  if (dice(drawn, 6) % 3 == 0) return;
  selection.first = range(drawn, 7, 0, std::min<int64_t>(selection.select, 2));
  selection.last = range(drawn, 8, 0, std::min<int64_t>(selection.select - selection.first, 3));
}

// If the drawn case has planted values, plants infinities among the scores of one query: one of them, all -inf,
// or a mixture. A score of a block that the query cannot choose may become NaN: it must not matter.
void plant(const Case& drawn, Case& c) {
  constexpr uint32_t kInf = 0x7f800000, kMinusInf = 0xff800000, kNaN = 0x7fc00000;
  constexpr int64_t kMostPlanted = 64;
  const Problem& p = c.problem;
  const int64_t blocks = p.blocks();
  if (drawn.planted.empty() || p.batch * p.heads_kv * p.seq_q * blocks == 0) return;
  const int64_t b = range(drawn, 13, 0, p.batch - 1), g = range(drawn, 14, 0, p.heads_kv - 1),
                queries = lengths_of(p, b).queries;
  if (queries == 0) return;
  const int64_t i = range(drawn, 15, 0, queries - 1), own = own_block(p, b, i);
  const uint64_t kind = dice(drawn, 16) % 3;
  const int64_t some = std::min(blocks, kMostPlanted), first = kind == 0 ? range(drawn, 17, 0, blocks - 1) : 0,
                count = kind == 0 ? 1 : some;
  for (int64_t j = first; j < first + count; ++j) {
    const uint64_t one = dice(drawn, 100 + static_cast<uint64_t>(j));
    const uint32_t infinity = kind == 1 || one % 2 == 0 ? kMinusInf : kInf;
    if (kind == 2 && one / 2 % 3 == 0) continue;  // this score keeps its number
    c.planted.push_back({TensorId::kScores, b, g, i, j, j > own && one / 2 % 2 == 0 ? kNaN : infinity});
  }
  if (own + 1 < blocks && dice(drawn, 18) % 2 == 0)
    c.planted.push_back({TensorId::kScores, b, g, i, range(drawn, 19, own + 1, blocks - 1), kNaN});
}

void shape(Case& c, uint64_t kernel_features) {
  if (c.problem.chooses()) return;
  const Case drawn = c;
  const Problem& from = drawn.problem;
  Problem& p = c.problem;
  p = Problem{};
  p.batch = from.batch, p.heads_q = p.heads_kv = from.heads_kv;
  p.seq_q = from.seq_q, p.seq_k = from.seq_k;
  p.key_lengths = from.key_lengths, p.packed_q = from.packed_q, p.packed_k = from.packed_k;
  p.causal = from.causal || dice(drawn, 9) % 2 == 0;
  if (p.causal)
    p.align = from.causal ? from.align : dice(drawn, 10) % 3 == 0 ? ATTN_TOP_LEFT : ATTN_BOTTOM_RIGHT;
  p.features = ATTN_FEATURE_NSA_SELECT;
  draw_blocks(drawn, p);
  if ((kernel_features & ATTN_FEATURE_INDEX32) != 0 && dice(drawn, 11) % 2 == 0) p.index_dtype = ATTN_INDEX_32;
  c.scores = scores_of(drawn);
  c.q = c.k = c.v = Fill{};
  c.once = {};
  c.planted.clear();
  plant(drawn, c);
  c.nan_beyond_lengths = false;
  for (const auto& [to, as] : {std::pair{kScores, kQ}, std::pair{kChosen, kO}}) {
    TensorLayout& layout = layout_of(c, to);
    layout = layout_of(drawn, as);
    layout.spread = 0;
    drop_misfits(c, {to});
  }
  tidy(c);
}

}  // namespace

extern const Operation nsa_select = {.name = "nsa_select",
                                     .feature = ATTN_FEATURE_NSA_SELECT,
                                     .inputs = kInputsOfChoice,
                                     .outputs = kOutputsOfChoice,
                                     .evaluate = evaluate_choice,
                                     .known = kChoiceKnows,
                                     .shape = shape};

}  // namespace attnfuzz::operations
