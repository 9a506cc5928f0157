#include <cmath>

#include "properties/data/bits16.h"
#include "properties/draw/draw.h"

namespace attnfuzz {
namespace {

Fill fill(Dice& dice, FillKind kind, int exponent = 0) {
  Fill f;
  f.kind = kind;
  f.exponent = exponent;
  f.seed = dice.bits() % 65536;
  return f;
}

// The regimes of Q and K: no one of them catches everything.
void draw_logits(Dice& dice, Case& c) {
  enum {
    kGaussian,
    kUniform,
    kPeaked,
    kZeroQ,
    kNegative,
    kEqual,
    kBlocks,
    kOneHot,
    kSmallInt,
    kPosition,
    kSubnormal,
    kHuge,
    kConstant
  };
  const auto both = [&](FillKind kind, int exponent = 0) {
    c.q = fill(dice, kind, exponent);
    c.k = fill(dice, kind, exponent);
  };
  switch (dice.weighted<int>({{34, kGaussian},
                              {9, kUniform},
                              {7, kPeaked},
                              {8, kZeroQ},
                              {7, kNegative},
                              {6, kEqual},
                              {6, kBlocks},
                              {5, kOneHot},
                              {6, kSmallInt},
                              {4, kPosition},
                              {3, kSubnormal},
                              {1, kHuge},
                              {4, kConstant}})) {
    case kGaussian:
      return both(FillKind::kGaussian);
    case kUniform:
      return both(FillKind::kUniform);
    case kPeaked:
      c.q = fill(dice, FillKind::kGaussian, 4);
      c.k = fill(dice, FillKind::kGaussian);
      return;
    case kZeroQ:
      c.q = fill(dice, FillKind::kZero);
      c.k = fill(dice, FillKind::kGaussian);
      return;
    case kNegative:
      c.q = fill(dice, FillKind::kUniform, static_cast<int>(dice.range(0, 5)));
      c.k = fill(dice, FillKind::kNegative, static_cast<int>(dice.range(0, 5)));
      return;
    case kEqual:
      c.q = fill(dice, FillKind::kGaussian);
      c.k = fill(dice, FillKind::kSameRows);
      return;
    case kBlocks:
      return both(FillKind::kBlocks);
    case kOneHot:
      c.q = fill(dice, FillKind::kGaussian);
      c.k = fill(dice, FillKind::kOneHot, 2);
      return;
    case kSmallInt:
      return both(FillKind::kSmallInt);
    case kPosition:
      return both(FillKind::kPosition, -6);
    case kSubnormal:
      c.q = fill(dice, FillKind::kSubnormal);
      c.k = fill(dice, FillKind::kGaussian);
      return;
    case kHuge:
      c.q = fill(dice, FillKind::kHuge);
      c.k = fill(dice, FillKind::kGaussian, -8);
      return;
    case kConstant:
      return both(FillKind::kConstant);
  }
}

FillKind value_kind(Dice& dice) {
  return dice.weighted<FillKind>({{44, FillKind::kGaussian},
                                  {9, FillKind::kConstant},
                                  {9, FillKind::kOneHot},
                                  {9, FillKind::kPosition},
                                  {9, FillKind::kSmallInt},
                                  {7, FillKind::kUniform},
                                  {4, FillKind::kBlocks},
                                  {3, FillKind::kSubnormal},
                                  {3, FillKind::kSignedZero},
                                  {3, FillKind::kHuge}});
}

float draw_scale(Dice& dice, const Problem& p) {
  enum { kUsual, kOne, kPower, kZero, kNegative };
  switch (dice.weighted<int>({{74, kUsual}, {6, kOne}, {10, kPower}, {4, kZero}, {6, kNegative}})) {
    case kOne:
      return 1.0f;
    case kPower:
      return std::ldexp(1.0f, static_cast<int>(dice.range(-8, 1)));
    case kZero:
      return 0.0f;
    case kNegative:
      return -1.0f / std::sqrt(static_cast<float>(p.dim_qk));
    default:
      return 1.0f / std::sqrt(static_cast<float>(p.dim_qk));  // IEEE: the same everywhere
  }
}

// A NaN or an infinity somewhere in Q, K or V.
void plant(Dice& dice, Case& c) {
  const Problem& p = c.problem;
  if (p.batch == 0 || p.seq_q == 0 || p.seq_k == 0) return;
  Planted planted;
  planted.tensor = dice.pick({TensorId::kQ, TensorId::kK, TensorId::kV});
  const bool query = planted.tensor == TensorId::kQ;
  planted.b = dice.range(0, p.batch - 1);
  planted.h = dice.range(0, (query ? p.heads_q : p.heads_kv) - 1);
  planted.s = dice.range(0, (query ? p.seq_q : p.seq_k) - 1);
  planted.d = dice.range(0, (planted.tensor == TensorId::kV ? p.dim_v : p.dim_qk) - 1);
  const uint32_t infinity = p.dtype == ATTN_F16 ? 0x7c00 : 0x7f80, nan = p.dtype == ATTN_F16 ? 0x7e00 : 0x7fc0;
  planted.bits = dice.pick<uint32_t>({nan, nan, nan, infinity, infinity | 0x8000});
  c.planted.push_back(planted);
}

}  // namespace

void draw_values(Dice& dice, Case& c) {
  draw_logits(dice, c);
  c.v = fill(dice, value_kind(dice), dice.percent(85) ? 0 : static_cast<int>(dice.range(-6, 6)));
  c.problem.scale = draw_scale(dice, c.problem);
  if (dice.percent(8)) c.problem.softcap = dice.pick({1.0f, 5.0f, 30.0f, 50.0f});
  if (dice.percent(3)) plant(dice, c);
}

}  // namespace attnfuzz
