// Scores blocks of keys by attention over compressed keys, and chooses blocks by these scores
// (ATTN_FEATURE_NSA_SCORE): the stage of native sparse attention that real kernels fuse. The LSE of that
// attention is an input. Which choices are right depends on how close scores are (reference/nsa/block_scores.h).
#include "properties/operations/operation.h"

#include <algorithm>
#include <cmath>

#include "properties/case/case.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/layouts.h"
#include "properties/operations/backward/ask_for_gradients.h"
#include "properties/operations/shape_dice.h"
#include "reference/model/calibration.h"
#include "reference/nsa/block_scores.h"
#include "reference/semantics.h"

namespace attnfuzz::operations {
namespace {

using enum TensorId;

constexpr TensorId kInputsOfScores[] = {kQ, kK, kSavedLse, kKeyLengths, kCuQ, kCuK};
constexpr Output kOutputsOfScores[] = {
    {.tensor = kChosen, .kind = OutputKind::kAdmissible, .objection = objection_to_choice},
    {.tensor = kBlockScores, .optional = true},
};

// The LSE that the attention over compressed keys has written, exact but for its rounding to fp32.
void save_lse(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
              const std::function<void(TensorId, std::vector<std::byte>)>& derive) {
  const ForwardCall call = compressed_attention_of(problem, host);
  const Reference due = evaluate(call.problem, call.tensors, exact_forward(plan), documented(), {}, false);
  derive(kSavedLse, saved_bytes(due[kLse], ATTN_F32));
}

// Draws the sizes of compressed blocks and of the blocks to choose from: those of models, and others. Some do not
// divide each other.
void draw_blocks(Rng& rng, Problem& p) {
  struct Blocks {
    int64_t length, step, size;
  };
  const Blocks blocks = rng.weighted<Blocks>({{20, {32, 16, 64}},
                                              {15, {4, 2, 8}},
                                              {10, {8, 4, 16}},
                                              {10, {2, 1, 2}},
                                              {10, {1, 1, 1}},
                                              {5, {16, 16, 64}},
                                              {5, {4, 4, 4}},
                                              {5, {5, 3, 7}},
                                              {20, {rng.range(1, 9), rng.range(1, 9), rng.range(1, 20)}}});
  p.key_step = blocks.step, p.key_offset = blocks.length - 1;
  p.selection.block = blocks.size;
}

// The drawn number of keys becomes the number of compressed keys in most cases, and the number of positions in the
// others, in packed entries too. A drawn key length of n becomes a length with n compressed keys: it ends with the last
// of them, just before the next one ends, or between. A length below 0 or above the number of keys stays so.
void draw_lengths(Rng& rng, const Problem& from, Problem& p) {
  if (rng.percent(35)) {
    p.seq_k = keys_below(p, from.seq_k);
    if (p.packed_k) {
      for (int64_t& keys : p.packed_k->lengths) keys = keys_below(p, keys);
    }
    return;
  }
  if (!p.key_lengths) return;
  for (int64_t& keys : *p.key_lengths) {
    if (keys < 0) continue;
    const int64_t inside = std::min(keys, p.seq_k), most = most_positions(p, inside);
    const int64_t least = inside == 0 ? 0 : most - p.key_step + 1;
    keys = keys > p.seq_k ? most + keys - p.seq_k
                          : rng.weighted<int64_t>({{35, least}, {35, most}, {30, rng.range(least, most)}});
  }
}

// Draws the length of lists: all blocks, more, few, or any number below. Most lists have at most half of the blocks, so
// that there is a choice. In half of the cases some blocks may always be chosen. If there are few blocks, they are made
// smaller; if there are many, larger.
void draw_list(Rng& rng, Problem& p) {
  constexpr int64_t kMostBlocks = 2048, kFewBlocks = 8;
  constexpr double kMostScores = 0x1p21;
  Selection& selection = p.selection;
  const double lists =
      static_cast<double>(p.batch) * static_cast<double>(p.heads_kv) * static_cast<double>(p.seq_q);
  const bool many = rng.percent(75);
  while (many && selection.block > 1 && p.blocks() < kFewBlocks) selection.block /= 2;
  while (p.blocks() > 1 && (p.blocks() > kMostBlocks || static_cast<double>(p.blocks()) * lists > kMostScores))
    selection.block *= 2;
  const int64_t blocks = std::max<int64_t>(p.blocks(), 1);
  selection.select = rng.weighted<int64_t>({{8, blocks},
                                            {7, blocks + rng.range(1, 9)},
                                            {25, rng.range(1, std::min<int64_t>(blocks, 3))},
                                            {45, rng.range(1, std::clamp<int64_t>(blocks / 2, 1, 32))},
                                            {15, rng.range(1, std::min<int64_t>(blocks, 64))}});
  if (rng.coin()) return;
  selection.first = rng.range(0, std::min<int64_t>(selection.select, 2));
  selection.last = rng.range(0, std::min<int64_t>(selection.select - selection.first, 3));
}

// In half of the cases the weights of a query are uneven, but mostly far from a single weight of 1. With the other
// fills, scores often tie, or one block has all of the weight.
void draw_numbers(Rng& rng, Case& c) {
  if (!c.planted.empty() || rng.coin()) return;
  c.q = {.kind = FillKind::kGaussian, .seed = static_cast<uint64_t>(rng.range(1, 65535))};
  c.k = {.kind = FillKind::kGaussian, .seed = static_cast<uint64_t>(rng.range(1, 65535))};
  c.problem.scale = rng.pick<float>({1, 1, 2, 3}) / std::sqrt(static_cast<float>(c.problem.dim_qk));
}

void lay_out(const Case& drawn, Case& c) {
  c.q = drawn.q, c.k = drawn.k;
  c.v = {};
  c.once.v = {};
  std::erase_if(c.planted, [](const Planted& x) { return x.tensor != kQ && x.tensor != kK; });
  for (const auto& [to, from] : {std::pair{kSavedLse, kLse}, {kChosen, kO}, {kBlockScores, kV}}) {
    layout_of(c, to) = layout_of(drawn, from);
    layout_of(c, to).spread = 0;
  }
  tidy(c);
  drop_misfits(c, {kQ, kK, kSavedLse, kChosen, kBlockScores});
}

void shape(Case& c, uint64_t kernel_features) {
  if (c.problem.scores_blocks()) return;
  const Case drawn = c;
  const Problem& from = drawn.problem;
  ShapeDice rng(drawn, 3);
  Problem& p = c.problem;
  p = Problem{};
  p.dtype = from.dtype, p.batch = from.batch, p.heads_q = from.heads_q, p.heads_kv = from.heads_kv;
  p.seq_q = from.seq_q, p.seq_k = from.seq_k, p.dim_qk = from.dim_qk, p.scale = from.scale;
  p.key_lengths = from.key_lengths, p.packed_q = from.packed_q, p.packed_k = from.packed_k;
  p.features = ATTN_FEATURE_NSA_SCORE | (from.features & ATTN_FEATURE_F32);
  draw_blocks(rng, p);
  draw_lengths(rng, from, p);
  draw_list(rng, p);
  p.causal = from.causal || rng.percent(70);
  // If there are few queries and the order is top-left, they see next to nothing.
  const bool few = p.seq_q < most_positions(p, p.seq_k) / 2;
  if (p.causal) p.align = rng.percent(few ? 85 : 45) ? ATTN_BOTTOM_RIGHT : ATTN_TOP_LEFT;
  if ((kernel_features & ATTN_FEATURE_INDEX32) != 0 && rng.percent(50)) p.index_dtype = ATTN_INDEX_32;
  lay_out(drawn, c);
  draw_numbers(rng, c);
  tidy(c);
}

}  // namespace

extern const Operation nsa_score = {.name = "nsa_score",
                                    .feature = ATTN_FEATURE_NSA_SCORE,
                                    .inputs = kInputsOfScores,
                                    .outputs = kOutputsOfScores,
                                    .evaluate = evaluate_block_scores,
                                    .known = kBlockScoresKnow,
                                    .prepare = save_lse,
                                    .shape = shape};

}  // namespace attnfuzz::operations
