#include "properties/draw/mutation_steps.h"

#include <algorithm>
#include <vector>

#include "properties/draw/draw.h"

namespace attnfuzz {
namespace {

constexpr int64_t kLargest = int64_t{1} << 31;

int64_t moved(int64_t value, int64_t tile, int64_t other, Dice& dice) {
  enum { kMore, kLess, kDouble, kHalf, kBorder, kMoreTiles, kLessTiles, kOther };
  switch (dice.weighted<int>({{12, kMore},
                              {12, kLess},
                              {8, kDouble},
                              {8, kHalf},
                              {36, kBorder},
                              {8, kMoreTiles},
                              {8, kLessTiles},
                              {8, kOther}})) {
    case kMore:
      return value < kLargest ? value + 1 : value;
    case kLess:
      return value - 1;
    case kDouble:
      return value < kLargest ? value * 2 : value;
    case kHalf:
      return value / 2;
    case kBorder:
      // The nearest border, or one of the first, and just beside it.
      return (dice.coin() ? (value + tile / 2) / tile : dice.range(1, 3)) * tile + dice.range(-1, 1);
    case kMoreTiles:
      return value < kLargest ? value + tile : value;
    case kLessTiles:
      return value - tile;
    default:
      return other + dice.range(-1, 1);
  }
}

struct Number {
  int64_t* value;
  int64_t least, tile, other;
};

void move_number(const Number& n, Dice& dice) {
  // A border below the least is not one of its own.
  *n.value = std::max(moved(*n.value, std::max<int64_t>(n.tile, 1), n.other, dice), n.least);
}

void step(Pattern& pattern, const Problem& p, int64_t tile_k, Dice& dice) {
  switch (dice.range(0, 3)) {
    case 0:
      pattern.kind = static_cast<PatternKind>(dice.range(0, kPatternKinds - 1));
      break;
    case 1:
      pattern.seed = dice.bits() % 65536;
      break;
    default:
      move_number({&pattern.parameter, 1, tile_k, p.seq_k}, dice);
  }
  if (pattern.kind == PatternKind::kRandom) pattern.parameter = std::clamp<int64_t>(pattern.parameter, 1, 15);
}

void step(Broadcast& broadcast, Dice& dice) {
  bool& flag = dice.pick({&broadcast.batch, &broadcast.head, &broadcast.query})[0];
  flag = !flag;
}

// Within what the draw scales its fills by.
void step(Fill& fill, Dice& dice) {
  if (dice.coin()) {
    fill.seed = dice.bits() % 65536;
  } else {
    fill.exponent = std::clamp<int>(fill.exponent + (dice.coin() ? 1 : -1), -8, 5);
  }
}

void step_planted(const Aim& aim, Dice& dice, Case& c) {
  if (c.planted.empty()) return;
  const auto at = static_cast<size_t>(dice.range(0, static_cast<int64_t>(c.planted.size()) - 1));
  const int64_t tile = a_tile(dice, c.planted[at].tensor == TensorId::kQ ? aim.tiles_q : aim.tiles_k);
  switch (dice.range(0, 2)) {
    case 0:
      c.planted.erase(c.planted.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    case 1:
      if (c.planted.size() < 8) c.planted.push_back(c.planted[at]);  // moved below, lest they coincide
      [[fallthrough]];
    default:
      move_number({&c.planted[at].s, 0, tile, 0}, dice);
      if (dice.percent(30)) move_number({&c.planted[at].d, 0, 8, 0}, dice);
  }
}

}  // namespace

void step_number(const Aim& aim, Dice& dice, Case& c) {
  Problem& p = c.problem;
  const int64_t tile_q = a_tile(dice, aim.tiles_q), tile_k = a_tile(dice, aim.tiles_k);
  std::vector<Number> numbers = {{&p.dim_qk, 1, 8, p.dim_v}, {&p.dim_v, 1, 16, p.dim_qk}, {&p.batch, 0, 1, 1}};
  // Lengths more often than the rest: loops end on them.
  for (int i = 0; i < 3; ++i) {
    numbers.push_back({&p.seq_q, 0, tile_q, p.seq_k});
    numbers.push_back({&p.seq_k, 0, tile_k, p.seq_q});
  }
  if (aim.splits) numbers.push_back({&p.num_splits, 0, 1, (p.seq_k + tile_k - 1) / tile_k + dice.range(0, 1)});
  if (p.window_left >= 0) numbers.push_back({&p.window_left, -1, tile_k, p.seq_k});
  if (p.window_right >= 0) numbers.push_back({&p.window_right, -1, tile_k, p.seq_k});
  if (p.key_lengths && !p.key_lengths->empty()) {
    const int64_t b = dice.range(0, static_cast<int64_t>(p.key_lengths->size()) - 1);
    numbers.push_back({&(*p.key_lengths)[static_cast<size_t>(b)], -1, tile_k, p.seq_k});
    numbers.push_back(numbers.back());
  }
  int64_t group = p.heads_q / p.heads_kv, heads_kv = p.heads_kv;
  numbers.push_back({&group, 1, 1, 3});
  numbers.push_back({&heads_kv, 1, 1, 3});
  move_number(dice.pick<Number>(std::span<const Number>(numbers)), dice);
  p.dim_qk = std::min<int64_t>(p.dim_qk, 256);
  p.dim_v = std::min<int64_t>(p.dim_v, 256);
  p.heads_kv = std::min(heads_kv, kLargest);
  p.heads_q = std::min(group, kLargest) * p.heads_kv;
}

void step_shape(const Aim& aim, Dice& dice, Case& c) {
  Problem& p = c.problem;
  switch (dice.range(0, 5)) {
    case 0:
      std::swap(p.seq_q, p.seq_k);
      break;
    case 1:
      p.seq_q = p.seq_k;
      break;
    case 2:
      p.seq_q = dice.range(1, 4);
      break;
    case 3:
      std::swap(p.dim_qk, p.dim_v);
      break;
    case 4:
      if (dice.coin()) {
        p.heads_kv = p.heads_q;
      } else {
        p.heads_q = p.heads_kv;
      }
      break;
    default:
      // Where the bottom-right diagonal meets a border.
      p.seq_k = p.seq_q + a_tile(dice, aim.tiles_k) * dice.range(0, 2) + dice.range(-1, 1);
      p.seq_k = std::max<int64_t>(p.seq_k, 0);
  }
}

void step_calls(Dice& dice, Case& c) {
  const auto at = static_cast<size_t>(dice.range(0, static_cast<int64_t>(c.calls.size()) - 1));
  switch (dice.range(0, 3)) {
    case 0:
      if (c.calls.size() < 4) c.calls.insert(c.calls.begin() + static_cast<std::ptrdiff_t>(at), c.calls[at]);
      break;
    case 1:
      if (c.calls.size() > 1) c.calls.erase(c.calls.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 2:
      c.calls[at].dirty_workspace = !c.calls[at].dirty_workspace;
      break;
    default:
      c.calls[at].stream = 1 - c.calls[at].stream;
  }
}

void step_values(const Aim& aim, Dice& dice, Case& c) {
  Problem& p = c.problem;
  const int64_t tile_k = a_tile(dice, aim.tiles_k);
  switch (dice.range(0, 5)) {
    case 0:
      if (p.mask)
        return dice.percent(75) ? step(p.mask->visible, p, tile_k, dice) : step(p.mask->broadcast, dice);
      [[fallthrough]];
    case 1:
      if (p.bias) {
        if (dice.percent(30)) p.bias->kind = static_cast<BiasKind>(dice.range(0, kBiasKinds - 1));
        return dice.percent(75) ? step(p.bias->finite, p, tile_k, dice) : step(p.bias->broadcast, dice);
      }
      [[fallthrough]];
    case 2:
      if (!c.planted.empty()) return step_planted(aim, dice, c);
      [[fallthrough]];
    case 3:
      return step(c.v, dice);
    case 4:
      return step(c.k, dice);
    default:
      return step(c.q, dice);
  }
}

void step_off(Dice& dice, Case& c) {
  Problem& p = c.problem;
  switch (dice.range(0, 9)) {
    case 0:
      p.causal = !p.causal;
      break;
    case 1:
      (dice.coin() ? p.window_left : p.window_right) = -1;
      break;
    case 2:
      p.key_lengths.reset();
      break;
    case 3:
      p.bias.reset();
      break;
    case 4:
      p.mask.reset();
      break;
    case 5:
      p.softcap = 0;
      break;
    case 6:
      c.planted.clear();
      break;
    case 7:
      c.calls = {Call{}};
      break;
    case 8:
      c.nan_beyond_lengths = !c.nan_beyond_lengths;
      break;
    default:
      c.layout[static_cast<size_t>(dice.range(0, kTensorCount - 1))] = TensorLayout{};
  }
}

}  // namespace attnfuzz
