// The compression turns each block of keys into one key and one value, the means of the block
// (ATTN_FEATURE_NSA_COMPRESS). It is the first stage of native sparse attention.
#include "properties/operations/operation.h"

#include <algorithm>

#include "properties/case/case.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/layouts.h"
#include "properties/case/places/packed.h"
#include "properties/operations/shape_dice.h"
#include "reference/nsa/compression.h"

namespace attnfuzz::operations {
namespace {

using enum TensorId;

constexpr TensorId kInputsOfCompression[] = {kK, kV, kKeyLengths, kCuQ, kCuK};
constexpr Output kOutputsOfCompression[] = {{.tensor = kKCmp}, {.tensor = kVCmp}};

// Draws the blocks: those that native sparse attention uses, blocks of one key, or any others, which may
// overlap or leave keys between them. Blocks longer than the sequence are rare.
void draw_blocks(Rng& rng, Problem& p) {
  struct Blocks {
    int64_t length, step;
  };
  const Blocks blocks = rng.weighted<Blocks>({{20, {32, 16}},
                                              {15, {16, 16}},
                                              {10, {1, 1}},
                                              {5, {64, 16}},
                                              {5, {4, 2}},
                                              {15, {rng.range(1, 9), rng.range(1, 9)}},
                                              {5, {rng.range(2, 70), 1}},
                                              {5, {rng.range(1, 3), rng.range(4, 40)}},
                                              {20, {rng.range(1, 70), rng.range(1, 70)}}});
  int64_t length = blocks.length;
  if (length > p.seq_k && rng.percent(80)) length = std::max<int64_t>(p.seq_k, 1);
  p.key_step = blocks.step, p.key_offset = length - 1;
}

// Draws the number of rows: one for each block, one for each start of a block, one fewer than blocks, or as drawn.
// The work of a check grows with rows times the keys of a block.
int64_t draw_rows(Rng& rng, const Problem& p, int64_t drawn) {
  constexpr int64_t kMostTerms = int64_t{1} << 24;
  const int64_t spare = p.seq_k - p.key_offset - 1, blocks = spare < 0 ? 0 : spare / p.key_step + 1;
  const int64_t rows = rng.weighted<int64_t>(
      {{60, blocks}, {15, p.seq_k / p.key_step + 1}, {10, std::max<int64_t>(blocks - 1, 0)}, {15, drawn}});
  const int64_t of_row = std::max<int64_t>(p.batch * p.heads_kv * (p.key_offset + 1) * (p.dim_qk + p.dim_v), 1);
  return std::min(rows, std::max<int64_t>(kMostTerms / of_row, 4));
}

// The rows of packed entries: as many as an entry has blocks, one more or fewer, or any number.
void draw_packed_rows(Rng& rng, Problem& p) {
  for (int64_t b = 0; b < std::ssize(p.packed_q->lengths); ++b) {
    const int64_t spare = lengths_of(p, b).keys - p.key_offset - 1, blocks = spare < 0 ? 0 : spare / p.key_step + 1;
    const int64_t rows = rng.weighted<int64_t>(
        {{70, blocks}, {10, blocks + 1}, {10, blocks - 1}, {10, rng.range(0, p.seq_q)}});
    p.packed_q->lengths[static_cast<size_t>(b)] = std::clamp<int64_t>(rows, 0, p.seq_q);
  }
}

void shape(Case& c, uint64_t kernel_features) {
  if (c.problem.compresses()) return;
  const Case drawn = c;
  const Problem& from = drawn.problem;
  ShapeDice rng(drawn, 2);
  Problem& p = c.problem;
  p = Problem{};
  p.dtype = from.dtype, p.batch = from.batch, p.heads_q = p.heads_kv = from.heads_kv;
  p.seq_k = from.seq_k, p.dim_qk = from.dim_qk, p.dim_v = from.dim_v;
  p.key_lengths = from.key_lengths, p.packed_q = from.packed_q, p.packed_k = from.packed_k;
  p.features = ATTN_FEATURE_NSA_COMPRESS | (from.features & ATTN_FEATURE_F32);
  draw_blocks(rng, p);
  p.seq_q = draw_rows(rng, p, from.seq_q);
  if (p.packed_q) draw_packed_rows(rng, p);
  const bool lengths = p.key_lengths || p.packed_q || p.packed_k;
  if ((kernel_features & ATTN_FEATURE_INDEX32) != 0 && lengths && rng.percent(50)) p.index_dtype = ATTN_INDEX_32;
  c.q = Fill{};
  c.once.q = {};
  c.want_lse = true;
  std::erase_if(c.planted, [](const Planted& x) { return x.tensor != kK && x.tensor != kV; });
  layout_of(c, kKCmp) = layout_of(drawn, kO);
  layout_of(c, kVCmp) = layout_of(drawn, kQ);
  tidy(c);
  drop_misfits(c, {kK, kV, kKCmp, kVCmp});
  tidy(c);
}

}  // namespace

extern const Operation nsa_compress = {.name = "nsa_compress",
                                       .feature = ATTN_FEATURE_NSA_COMPRESS,
                                       .inputs = kInputsOfCompression,
                                       .outputs = kOutputsOfCompression,
                                       .evaluate = evaluate_compression,
                                       .known = kCompressionKnows,
                                       .shape = shape};

}  // namespace attnfuzz::operations
