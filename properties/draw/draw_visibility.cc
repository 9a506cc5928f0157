#include <limits>

#include "properties/draw/draw.h"

namespace attnfuzz {
namespace {

// What arithmetic in 32 or 64 bits makes of a window that no sequence is as wide as.
constexpr int64_t kWidest[] = {(int64_t{1} << 31) - 1, int64_t{1} << 31, int64_t{1} << 62,
                               std::numeric_limits<int64_t>::max()};

// Lengths that are cut to what there is, unless 16 or 32 bits have cut them first.
constexpr int64_t kBeyondIntegers[] = {int64_t{1} << 15, int64_t{1} << 16, int64_t{1} << 31, int64_t{1} << 32};

int64_t window_side(Dice& dice, int64_t seq_k) {
  return dice.weighted<int64_t>({{25, -1},
                                 {6, dice.pick<int64_t>(kWidest)},
                                 {20, 0},
                                 {25, dice.range(1, 8)},
                                 {20, dice.range(1, seq_k + 1)},
                                 {10, seq_k + dice.range(0, 5)}});
}

std::vector<int64_t> key_lengths(Dice& dice, const Problem& p, int64_t tile_k) {
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < p.batch; ++b) {
    const int64_t border = tile_k * dice.range(1, 3) + dice.range(-1, 1);
    lengths.push_back(dice.weighted<int64_t>({{40, dice.range(0, p.seq_k)},
                                              {20, border < p.seq_k ? border : p.seq_k},
                                              {15, p.seq_k},
                                              {16, 0},
                                              {5, 1},
                                              {5, p.seq_k + dice.range(1, 100)},
                                              {4, dice.pick<int64_t>(kBeyondIntegers)},
                                              {3, -dice.range(1, 9)}}));
  }
  return lengths;
}

Pattern pattern(Dice& dice, const Problem& p, int64_t tile_k) {
  Pattern pattern;
  pattern.kind = dice.weighted<PatternKind>({{6, PatternKind::kAll},
                                             {6, PatternKind::kNothing},
                                             {8, PatternKind::kFirstKey},
                                             {12, PatternKind::kLastKey},
                                             {12, PatternKind::kPrefix},
                                             {12, PatternKind::kDocuments},
                                             {20, PatternKind::kDeadRows},
                                             {16, PatternKind::kDeadTiles},
                                             {6, PatternKind::kStripes},
                                             {14, PatternKind::kRandom}});
  pattern.seed = dice.bits() % 65536;
  switch (pattern.kind) {
    case PatternKind::kPrefix:
    case PatternKind::kDocuments:
      pattern.parameter = dice.range(1, p.seq_k + 1);
      break;
    case PatternKind::kDeadTiles:
      pattern.parameter = dice.percent(70) ? tile_k : dice.range(1, tile_k);
      break;
    case PatternKind::kRandom:
      pattern.parameter = dice.range(1, 15);
      break;
    case PatternKind::kDeadRows:
    case PatternKind::kStripes:
      pattern.parameter = dice.range(1, 7);
      break;
    default:
      break;
  }
  return pattern;
}

Broadcast broadcast(Dice& dice) { return {dice.percent(35), dice.percent(50), dice.percent(25)}; }

Bias bias(Dice& dice, const Problem& p, int64_t tile_k) {
  Bias bias;
  bias.dtype = dice.pick<int32_t>({ATTN_F32, ATTN_F32, ATTN_F16, ATTN_BF16});
  bias.kind = dice.weighted<BiasKind>({{20, BiasKind::kZero},
                                       {15, BiasKind::kRowConstant},
                                       {35, BiasKind::kGaussian},
                                       {20, BiasKind::kAlibi},
                                       {12, BiasKind::kVeryNegative},
                                       {35, BiasKind::kMasking}});
  if (bias.kind == BiasKind::kMasking || dice.percent(55)) bias.finite = pattern(dice, p, tile_k);
  // What tells the lowest number from -inf is a whole tile of it beside a key that counts.
  if (bias.kind == BiasKind::kMasking && dice.coin()) {
    bias.finite.kind = dice.coin() ? PatternKind::kLastKey : PatternKind::kDeadTiles;
    bias.finite.parameter = tile_k;
  }
  bias.broadcast = broadcast(dice);
  bias.seed = dice.bits() % 65536;
  return bias;
}

}  // namespace

void draw_visibility(const Aim& aim, Dice& dice, Case& c) {
  Problem& p = c.problem;
  const int64_t tile_k = a_tile(dice, aim.tiles_k);
  p.causal = dice.percent(40);
  p.align = dice.coin() ? ATTN_TOP_LEFT : ATTN_BOTTOM_RIGHT;
  if (dice.percent(15)) {
    p.window_left = window_side(dice, p.seq_k);
    p.window_right = window_side(dice, p.seq_k);
  }
  if (dice.percent(22)) p.key_lengths = key_lengths(dice, p, tile_k);
  if (dice.percent(22)) p.bias = bias(dice, p, tile_k);
  if (dice.percent(20)) p.mask = Mask{pattern(dice, p, tile_k), broadcast(dice)};
  c.nan_beyond_lengths = p.key_lengths && dice.percent(60);
}

}  // namespace attnfuzz
