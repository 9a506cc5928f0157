#include "properties/draw/ordinary.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "properties/draw/afford.h"

namespace attnfuzz {
namespace {

constexpr int64_t kVeryLong = 4096;
constexpr int64_t kLong = 1024;         // least number of keys of a usual decode
constexpr int64_t kMostLength = 32768;  // most keys
constexpr int64_t kMostHeads = 64, kMostBatch = 16;
// Beyond the usual price, whole tiles may cost this many times the exact work.
constexpr int64_t kFarTiles = 2;

struct Dims {
  int64_t qk, v;
};
Dims model_dims(Rng& rng) {
  return rng.weighted<Dims>({{52, {64, 64}},
                             {18, {128, 128}},
                             {8, {256, 256}},
                             {7, {80, 80}},
                             {5, {96, 96}},
                             {3, {192, 192}},
                             {7, {192, 128}}});  // the prefill of multi-head latent attention
}

// Each power of two costs about the same in total, so short lengths are more frequent. Nearly half of the
// lengths lie on or beside a power of two.
int64_t some_length(Rng& rng, int64_t least, int64_t most) {
  if (most <= least) return std::max<int64_t>(most, 1);
  const auto octaves = static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(most / least)) - 1);
  int64_t octave = 0;
  while (octave < octaves && rng.percent(35)) ++octave;
  const int64_t low = least << octave;
  const int64_t n =
      rng.percent(55) ? low + rng.pick<int64_t>({-1, 0, 0, 1, 2, 63, 64, 65}) : rng.range(low, 2 * low - 1);
  return std::min(n, most);
}

// Spends the rest of the work on query heads and batch entries: their product is at most `room`.
void spend(Rng& rng, int64_t room, Problem& p) {
  const int64_t group = rng.weighted<int64_t>({{40, 1}, {6, 2}, {27, 4}, {27, 8}});
  const int64_t shared = std::min(group, std::max<int64_t>(room, 1));
  room /= shared;
  const auto up_to = [&](int64_t most) {
    return rng.percent(50) ? 1 : rng.range(1, std::clamp<int64_t>(room, 1, most));
  };
  const bool batch_first = rng.coin();
  if (batch_first) room /= p.batch = up_to(kMostBatch);
  p.heads_kv = up_to(kMostHeads / shared);
  room /= p.heads_kv;
  if (!batch_first) p.batch = up_to(kMostBatch);
  p.heads_q = p.heads_kv * shared;
}

enum class Kind : uint8_t { kDecode, kChunk, kPrefill, kShort };

// Kinds take turns, so that each check of 1,000 cases also has the rare ones. Most have 1,024 to 2,047
// keys, because more keys take longer to lay out and to judge.
struct Turn {
  uint64_t of;  // this many of kTurns cases
  Kind kind;
  int64_t keys;  // least number; up to twice as many
};
constexpr uint64_t kTurns = 100;
constexpr Turn kTurn[] = {{2, Kind::kDecode, 16384}, {3, Kind::kDecode, 8192},  {4, Kind::kDecode, 4096},
                          {6, Kind::kDecode, 2048},  {54, Kind::kDecode, 1024}, {8, Kind::kChunk, 0},
                          {15, Kind::kPrefill, 0},   {8, Kind::kShort, 0}};

const Turn& turn_of(uint64_t number) {
  uint64_t at = number * 37 % kTurns;  // mixed, so that each hundred has all kinds and each ten has some
  const Turn* turn = kTurn;
  while (at >= turn->of) at -= (turn++)->of;
  return *turn;
}

int64_t decode_keys(Rng& rng, int64_t low) {
  return rng.percent(40) ? low + rng.pick<int64_t>({0, 0, 1, 2, 63, 64, 65, 128}) : rng.range(low, 2 * low - 1);
}

void draw_sizes(const GeneratorConfig& config, Rng& rng, uint64_t number, Case& c) {
  Problem& p = c.problem;
  Dims dims = model_dims(rng);
  // Most cases leave most of the work unused.
  const int64_t work = config.work / rng.weighted<int64_t>({{2, 1}, {5, 2}, {15, 4}, {30, 8}, {48, 16}});
  // scores over all heads that the work pays for
  const int64_t scores = std::max<int64_t>(work / (dims.qk + dims.v), 1);
  const Turn& turn = turn_of(number);
  switch (turn.kind) {
    case Kind::kDecode:
      p.seq_k = decode_keys(rng, turn.keys);
      p.seq_q = rng.weighted<int64_t>({{70, 1}, {12, 2}, {6, 3}, {12, 4}});
      if (p.seq_k >= kVeryLong && rng.percent(80)) dims = {64, 64};
      break;
    case Kind::kChunk:
      p.seq_q = some_length(rng, 4, 64);
      p.seq_k = some_length(rng, 128, std::max<int64_t>(scores / p.seq_q, 1));
      break;
    case Kind::kPrefill: {
      const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(scores)));
      p.seq_q = some_length(rng, 16, side);
      p.seq_k = p.seq_q + (rng.percent(60) ? 0 : some_length(rng, 16, side));
      break;
    }
    case Kind::kShort:
      p.seq_q = rng.range(1, 4);
      p.seq_k = some_length(rng, 32, 512);
      break;
  }
  p.dim_qk = dims.qk, p.dim_v = dims.v;
  p.batch = p.heads_q = p.heads_kv = 1;
  // A decode gives up queries first, then columns, and never keys.
  while (exact_work(p) > config.work && p.seq_q > 1) --p.seq_q;
  if (exact_work(p) > config.work) p.dim_qk = p.dim_v = std::min<int64_t>(64, p.dim_qk);
  if (p.seq_k >= 2 * kLong && rng.percent(70)) return;  // one such head costs enough
  spend(rng, work / std::max<int64_t>(static_cast<int64_t>(exact_work(p)), 1), p);
}

// Several tiles by several tiles, a few queries with a long cache, or the longest decode.
void draw_far_sizes(const GeneratorConfig& config, Rng& rng, Case& c) {
  Problem& p = c.problem;
  const Dims dims = model_dims(rng);
  p.dim_qk = dims.qk, p.dim_v = dims.v;
  p.batch = p.heads_kv = 1;
  p.heads_q = 1;
  const Tiling tiling = tiling_of(config, c);
  switch (rng.weighted<int>({{60, 0}, {30, 1}, {10, 2}})) {
    case 0:
      p.seq_q = tiling.q * rng.range(5, 7) + rng.range(1, tiling.q);
      p.seq_k = tiling.k * rng.range(5, 7) + rng.range(1, tiling.k);
      if (rng.percent(75)) p.dim_qk = p.dim_v = 64;
      p.heads_q = rng.percent(75) ? 1 : 2;
      break;
    case 1:
      p.seq_q = some_length(rng, 16, 128);
      p.seq_k = some_length(rng, kLong, 2 * kLong);
      break;
    default:
      p.seq_q = rng.weighted<int64_t>({{80, 1}, {20, 2}});
      p.seq_k = some_length(rng, 8 * kLong, kMostLength);
  }
  if (p.heads_q > 1 && rng.coin()) p.heads_kv = p.heads_q;
}

void draw_splits(const GeneratorConfig& config, Rng& rng, Case& c) {
  Problem& p = c.problem;
  p.num_splits = 0;
  if (!config.splits || rng.coin()) return;
  const int64_t tiles = p.seq_k / tiling_of(config, c).k + 1;
  p.num_splits = rng.range(1, rng.percent(70) ? std::min<int64_t>(tiles, 32) : tiles);
}

bool affords(const GeneratorConfig& config, bool far, const Case& c) {
  if (!far) return affordable(c, config);
  return exact_work(c.problem) <= config.work &&
         price(config, c).work <= kFarTiles * static_cast<Wide>(config.work);
}

// Gives up entries and heads first, then queries and keys.
void make_affordable(const GeneratorConfig& config, bool far, Case& c) {
  Problem& p = c.problem;
  while (!affords(config, far, c)) {
    const int64_t group = p.heads_q / p.heads_kv;
    if (p.batch > 1) {
      p.batch /= 2;
    } else if (p.heads_kv > 1) {
      p.heads_kv /= 2, p.heads_q = p.heads_kv * group;
    } else if (group > 1) {
      p.heads_q = p.heads_kv * (group / 2);
    } else if (p.seq_q > 8) {
      p.seq_q -= std::max<int64_t>(p.seq_q / 8, 1);
    } else if (p.seq_k > 1) {
      p.seq_k -= std::max<int64_t>(p.seq_k / 8, 1);
    } else {
      return;
    }
  }
}

// Half of the cases have a causal mask. Three in ten also have key lengths, a window or a bias.
void draw_visibility(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  Problem& p = c.problem;
  p.mask.reset(), p.bias.reset(), p.key_lengths.reset();
  p.window_left = p.window_right = -1;
  c.nan_beyond_lengths = false;
  const bool few_queries = p.seq_q < p.seq_k;
  p.causal = rng.percent(50);
  // With top-left alignment, few queries of many keys see almost nothing.
  p.align = rng.percent(few_queries ? 5 : 50) ? ATTN_TOP_LEFT : ATTN_BOTTOM_RIGHT;
  enum { kNothing, kLengths, kWindow, kBias };
  switch (rng.weighted<int>({{70, kNothing}, {12, kLengths}, {8, kWindow}, {10, kBias}})) {
    case kLengths:
      p.key_lengths.emplace();
      for (int64_t b = 0; b < p.batch; ++b)
        p.key_lengths->push_back(rng.percent(30) ? p.seq_k : rng.range(p.seq_k / 2, p.seq_k));
      break;
    case kWindow:
      p.window_left = some_length(rng, 16, std::max<int64_t>(p.seq_k, 1));
      if (!p.causal && rng.coin()) p.window_right = 0;
      p.align = ATTN_BOTTOM_RIGHT;
      break;
    case kBias:
      // One bias for each head, in fp32, shared by the batch, as in ALiBi and relative positions.
      if (p.heads_q * p.seq_q * p.seq_k > 1'000'000) break;
      p.bias.emplace().kind = rng.coin() ? BiasKind::kAlibi : BiasKind::kGaussian;
      p.bias->broadcast.batch = true;
      if (p.bias->kind == BiasKind::kGaussian) p.bias->seed = rng.bits() % 65536;
      break;
    default:
      break;
  }
}

void draw_values(Rng& rng, Case& c) {
  Problem& p = c.problem;
  for (Fill* fill : {&c.q, &c.k, &c.v}) *fill = {.kind = FillKind::kGaussian, .seed = rng.bits() % 65536};
  c.planted.clear();
  const bool usual = rng.percent(85);
  p.scale = usual ? 1.0f / std::sqrt(static_cast<float>(std::max<int64_t>(p.dim_qk, 1))) : 1.0f;
  p.softcap = 0;
  if (rng.percent(12)) p.softcap = static_cast<float>(rng.range(15 * 16, 50 * 16)) / 16;
}

void draw_memory(Rng& rng, Case& c) {
  const bool positions_first = rng.coin();
  for (TensorLayout& layout : c.layout) layout = {};
  for (const TensorId t : kMatrixTensors) {
    if (positions_first) c.layout[static_cast<size_t>(t)].order = {0, 2, 1};
  }
  c.once = {};
  c.calls.resize(1);
  c.calls.front().dirty_workspace = rng.percent(20);
}

}  // namespace

int64_t far_work(const GeneratorConfig& config) {
  constexpr int64_t kTimes = 32, kMost = 100'000'000;
  return std::max(config.work, std::min(kTimes * config.work, kMost));
}

void make_ordinary(Phase phase, const GeneratorConfig& config, Rng& rng, const Ordinary& which, Case& c) {
  switch (phase) {
    case Phase::kSizes:
      which.far ? draw_far_sizes(config, rng, c) : draw_sizes(config, rng, which.number, c);
      make_affordable(config, which.far, c);
      draw_splits(config, rng, c);
      break;
    case Phase::kVisibility:
      draw_visibility({config, rng, config.tiles_q.front(), config.tiles_k.front()}, c);
      break;
    case Phase::kValues:
      draw_values(rng, c);
      break;
    case Phase::kMemory:
      draw_memory(rng, c);
      break;
    case Phase::kLater:  // drawn after this, as for any other case
    case Phase::kNone:
      break;
  }
}

void draw_many_splits(const GeneratorConfig& config, Rng& rng, Case& c) {
  Problem& p = c.problem;
  p.dim_qk = rng.pick<int64_t>({8, 16, 32, 64});
  p.dim_v = rng.percent(80) ? p.dim_qk : rng.pick<int64_t>({8, 16, 32, 64});
  const int64_t tile = tiling_of(config, c).k;
  const int64_t all = config.work / (p.dim_qk + p.dim_v) / tile;  // tiles that one row pays for
  const int64_t tiles =
      std::clamp<int64_t>(rng.coin() ? rng.range(9, 64) : rng.range(65, 200), 1, std::max<int64_t>(all, 1));
  p.seq_k = tile * (tiles - 1) + rng.range(1, tile);
  p.seq_q = rng.range(1, std::clamp<int64_t>(all / tiles, 1, 4));
  p.batch = p.heads_kv = 1;
  p.heads_q = rng.range(1, std::clamp<int64_t>(all / tiles / p.seq_q, 1, 4));
  // Usually one or two tiles for each split.
  const int64_t tiles_each = rng.weighted<int64_t>({{80, 1}, {20, rng.range(2, 4)}});
  p.num_splits = (tiles + tiles_each - 1) / tiles_each + (rng.percent(20) ? rng.range(1, 40) : 0);
  make_affordable(config, false, c);
}

void draw_wide(const GeneratorConfig& config, Rng& rng, Case& c) {
  constexpr int64_t kMost = 130;
  Problem& p = c.problem;
  const int64_t low = int64_t{9} << rng.range(0, 3);
  const int64_t many = std::min(rng.range(low, 2 * low - 1), kMost);
  p.dim_qk = rng.pick<int64_t>({4, 8, 16, 32, 64});
  p.dim_v = rng.percent(80) ? p.dim_qk : rng.pick<int64_t>({4, 8, 16, 32, 64});
  p.seq_q = rng.weighted<int64_t>({{75, 1}, {25, rng.range(2, 4)}});
  const int64_t room = config.work / (p.dim_qk + p.dim_v) / p.seq_q / many;
  p.seq_k = some_length(rng, 1, std::clamp<int64_t>(room, 1, 160));
  p.batch = p.heads_kv = p.heads_q = 1;
  switch (rng.weighted<int>({{50, 0}, {25, 1}, {25, 2}})) {
    case 0:
      p.batch = many;
      if (rng.percent(30)) p.heads_q = 2;
      break;
    case 1:
      p.heads_kv = p.heads_q = many;
      break;
    default:
      p.heads_q = many;
  }
  p.num_splits = config.splits && rng.percent(30) ? rng.range(1, 4) : 0;
  while (!affordable(c, config) && p.seq_k > 1) p.seq_k /= 2;
  make_affordable(config, false, c);
}

}  // namespace attnfuzz
