#include "properties/judge/situations.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "properties/axes/axis.h"
#include "properties/case/features/feature.h"
#include "properties/case/places/packed.h"
#include "properties/case/words.h"
#include "properties/data/recipe.h"
#include "properties/data/tiles.h"

namespace attnfuzz {
namespace {

// --- the groups, one after another ---
constexpr int kOutcomes = 4, kKinds = kKindCount;
constexpr const char* kTileStates[] = {"with a dead row", "dead", "out of reach"};  // of a KV tile
constexpr const char* kPlaces[] = {"only", "first", "middle", "last"};
constexpr const char* kRows[] = {"no row dead", "some rows dead", "every row dead"};
constexpr const char* kBorders[] = {"at a border", "one beyond a border", "one before a border",
                                    "within a tile", "zero"};
constexpr const char* kTiles[] = {"one tile", "two tiles", "three tiles or more"};
constexpr const char* kEmpty[] = {"no split empty", "one split empty", "several splits empty"};
constexpr const char* kHeads[] = {"1 head", "2 heads", "3 heads", "more heads"};
constexpr int kPaths = 16, kVariants = 5;
constexpr int kLeastRatio = -20, kRatios = 23;  // exact; then up to 2^-20, ... up to 1; above

// The classes of the axes that are collected.
struct Class {
  const CaseAxis* axis;
  int at;
};
const std::vector<Class>& classes() {
  static const auto all = [] {
    std::vector<Class> classes;
    for (const CaseAxis& axis : axes()) {
      for (int at = 0; axis.collected && at < static_cast<int>(axis.classes.size()); ++at)
        classes.push_back({&axis, at});
    }
    return classes;
  }();
  return all;
}

// Features that are collected in pairs, and dead rows, which no single feature decides.
struct Paired {
  const char* name;
  bool (*there)(const Tiled& x);  // nullptr: dead rows
};
const std::vector<Paired>& paired() {
  static const auto all = [] {
    std::vector<Paired> tags = {{"dead rows", nullptr}};
    for (const Feature* feature : all_features()) {
      for (const Tag& tag : feature->tags) {
        if (tag.use != TagUse::kClasses) tags.push_back({tag.name, tag.there});
      }
    }
    return tags;
  }();
  return all;
}
// A pair of a feature with itself stands for that feature.
int pairs() { return static_cast<int>(paired().size() * (paired().size() + 1) / 2); }

template <size_t N>
constexpr int count(const char* const (&)[N]) {
  return static_cast<int>(N);
}

enum Base : int {
  kOutcome = 0,
  kKind = kOutcome + kOutcomes,
  kTile = kKind + kKinds,
  kRow = kTile + count(kTileStates) * count(kPlaces),
  kDiagonal = kRow + count(kRows),
  kGrid = kDiagonal + count(kBorders) * count(kTiles),
  kEnds = kGrid + 2 * count(kHeads) * count(kTiles) * count(kTiles),
  kEmptySplit = kEnds + count(kBorders) * count(kBorders) * count(kTiles),
  kPath = kEmptySplit + count(kEmpty),
  kRatio = kPath + kPaths * kVariants,
  kFeature = kRatio + 2 * kRatios  // pairs() of each format, then classes()
};
int class_base() { return kFeature + 2 * pairs(); }

constexpr const char* kOutcomeNames[kOutcomes] = {"passed", "rejected", "uninformative", "failed"};
constexpr const char* kDtypes[] = {"f16", "bf16"};

// fp32 shares the ids of bf16, whose range it has; hardly any kernel takes both.
int dtype_of(const Case& c) { return c.problem.dtype == ATTN_F16 ? 0 : 1; }

int pair(int i, int j) {  // i <= j
  return j * (j + 1) / 2 + i;
}

class Collected {
 public:
  void add(int id) { ids_.push_back(static_cast<uint16_t>(id)); }
  std::vector<uint16_t> take() {
    std::ranges::sort(ids_);
    const auto rest = std::ranges::unique(ids_);
    ids_.erase(rest.begin(), rest.end());
    return std::move(ids_);
  }

 private:
  std::vector<uint16_t> ids_;
};

// --- KV tiles that a query tile does not see, and rows that see no key ---

constexpr int64_t kHeadsAsked = 2, kQueryTilesAsked = 3, kRowsAsked = 5, kTilesAsked = 64;

struct Dead {
  std::array<bool, 12> tiles = {};  // state x place
  bool some_row = false, live_row = false;
};

// The keys of a batch entry, whether its key length lets a query see them or not.
int64_t entry_keys(const Problem& p, int64_t b) {
  return p.packed_k ? packed_length(*p.packed_k, p.seq_k, b) : p.seq_k;
}

Dead dead_tiles(const Case& c, int64_t tile_q, int64_t tile_k) {
  const Problem& p = c.problem;
  Case position = c;
  position.problem.mask.reset();
  position.problem.bias.reset();
  Dead dead;
  const auto any = [&](const Case& of, int64_t b, int64_t h, int64_t i, int64_t tile) {
    const int64_t end = std::min(entry_keys(p, b), (tile + 1) * tile_k);
    for (int64_t j = tile * tile_k; j < end; ++j) {
      if (sees(of, b, h, i, j)) return true;
    }
    return false;
  };
  for (const int64_t bh : samples(0, p.batch * p.heads_q, kHeadsAsked)) {
    const int64_t b = bh / p.heads_q, h = bh % p.heads_q, queries = lengths_of(p, b).queries;
    const int64_t query_tiles = (queries + tile_q - 1) / tile_q,
                  key_tiles = (entry_keys(p, b) + tile_k - 1) / tile_k;
    const std::vector<int64_t> keys = samples(0, key_tiles, kTilesAsked);
    for (const int64_t r : samples(0, query_tiles, kQueryTilesAsked)) {
      const auto rows = samples(r * tile_q, std::min(queries, (r + 1) * tile_q), kRowsAsked);
      std::array<bool, kRowsAsked> alive = {};
      for (const int64_t tile : keys) {
        int seen = 0;
        for (size_t n = 0; n < rows.size(); ++n) {
          const bool sees_one = any(c, b, h, rows[n], tile);
          alive[n] |= sees_one;
          seen += sees_one;
        }
        if (seen == static_cast<int>(rows.size())) continue;
        const int place = key_tiles == 1 ? 0 : tile == 0 ? 1 : tile == key_tiles - 1 ? 3 : 2;
        int state = 0;
        if (seen == 0) {
          const bool reach = std::ranges::any_of(rows, [&](int64_t i) { return any(position, b, h, i, tile); });
          state = reach ? 1 : 2;
        }
        dead.tiles[static_cast<size_t>(state * count(kPlaces) + place)] = true;
      }
      for (size_t n = 0; n < rows.size(); ++n) (alive[n] ? dead.live_row : dead.some_row) = true;
    }
  }
  return dead;
}

// --- sizes beside the borders of tiles ---

int place_of(int64_t value, int64_t tile) {
  const int64_t inside = ((value % tile) + tile) % tile;
  return value == 0 ? 4 : inside == 0 ? 0 : inside == 1 ? 1 : inside == tile - 1 ? 2 : 3;
}

int tiles_of(int64_t value, int64_t tile) { return value <= tile ? 0 : value <= 2 * tile ? 1 : 2; }

// Both lengths together: the number of tiles of a block and of the grid, and where both end.
void grid(const Case& c, int64_t tile_q, int64_t tile_k, Collected& out) {
  const Problem& p = c.problem;
  const int heads = static_cast<int>(std::clamp<int64_t>(p.heads_q, 1, count(kHeads))) - 1;
  const int q = tiles_of(p.seq_q, tile_q), k = tiles_of(p.seq_k, tile_k);
  out.add(kGrid + (((p.causal ? 1 : 0) * count(kHeads) + heads) * count(kTiles) + q) * count(kTiles) + k);
  out.add(kEnds + (place_of(p.seq_q, tile_q) * count(kBorders) + place_of(p.seq_k, tile_k)) * count(kTiles) +
          k);
}

void diagonal(const Problem& p, int64_t tile_k, Collected& out) {
  if (!hides_by_diagonal(p) || p.align != ATTN_BOTTOM_RIGHT) return;
  const int64_t first = p.seq_k - p.seq_q;
  out.add(kDiagonal + place_of(first, tile_k) * count(kTiles) + tiles_of(first, tile_k));
}

// --- the plan ---

void empty_splits(const Case& c, const attn_plan& plan, Collected& out) {
  const int64_t n = std::max<int64_t>(plan.num_splits, 1);
  if (n == 1) return;
  const int64_t tiles = (c.problem.seq_k + plan.tile_k - 1) / plan.tile_k;
  const int64_t each = std::max<int64_t>(plan.split_tiles, 1);
  const int64_t empty = std::max<int64_t>(n - (tiles + each - 1) / each, 0);
  out.add(kEmptySplit + static_cast<int>(std::min<int64_t>(empty, 2)));
}

int path_bucket(const attn_plan& plan) {
  uint32_t hash = 2166136261;  // FNV-1a
  for (const char* s = plan.path; s < plan.path + sizeof plan.path && *s; ++s) {
    hash = (hash ^ static_cast<uint8_t>(*s)) * 16777619;
  }
  return static_cast<int>((hash ^ hash >> 16) % kPaths);
}

int ratio_bucket(double worst) {
  if (!(worst > 0)) return 0;
  const double exponent = std::ceil(std::log2(worst));
  return static_cast<int>(std::clamp<double>(exponent - kLeastRatio + 1, 1, kRatios - 1));
}

void features_in_pairs(const Case& c, const Tiled& tiled, const Dead& dead, Collected& out) {
  const int base = kFeature + dtype_of(c) * pairs();
  std::vector<int> has;
  for (int j = 0; j < static_cast<int>(paired().size()); ++j) {
    const auto there = paired()[static_cast<size_t>(j)].there;
    if (there ? !there(tiled) : !dead.some_row) continue;
    has.push_back(j);
    for (const int i : has) out.add(base + pair(i, j));
  }
}

void classes_of(const Tiled& tiled, Collected& out) {
  int is = kNoClass;
  for (size_t n = 0; n < classes().size(); ++n) {
    if (classes()[n].at == 0) is = classes()[n].axis->of(tiled);
    if (classes()[n].at == is) out.add(class_base() + static_cast<int>(n));
  }
}

}  // namespace

std::vector<uint16_t> situations(const Case& c, const Verdict& verdict) {
  Collected out;
  out.add(kOutcome + static_cast<int>(verdict.outcome));
  out.add(kKind + static_cast<int>(verdict.kind));
  attn_plan plan = verdict.plan;
  if (verdict.outcome == Outcome::kRefused || plan.tile_q < 1 || plan.tile_k < 1) return out.take();
  // A kernel may claim any tile size.
  constexpr int64_t kLargest = int64_t{1} << 31;
  plan.tile_q = std::min(plan.tile_q, kLargest);
  plan.tile_k = std::min(plan.tile_k, kLargest);
  const Dead dead = dead_tiles(c, plan.tile_q, plan.tile_k);
  for (size_t i = 0; i < dead.tiles.size(); ++i) {
    if (dead.tiles[i]) out.add(kTile + static_cast<int>(i));
  }
  out.add(kRow + (!dead.some_row ? 0 : dead.live_row ? 1 : 2));
  diagonal(c.problem, plan.tile_k, out);
  grid(c, plan.tile_q, plan.tile_k, out);
  empty_splits(c, plan, out);
  out.add(kPath + path_bucket(plan) * kVariants + std::clamp(c.env.variant, 0, kVariants - 1));
  out.add(kRatio + dtype_of(c) * kRatios + ratio_bucket(verdict.worst));
  const Tiled tiled = {c, c.problem, plan.tile_q, plan.tile_k, plan.num_splits};
  features_in_pairs(c, tiled, dead, out);
  Problem planned = c.problem;  // with the splits that the kernel chose
  planned.num_splits = std::max<int64_t>(plan.num_splits, 1);
  classes_of({c, planned, plan.tile_q, plan.tile_k, plan.num_splits}, out);
  if (c.problem.num_splits == 0) classes_of(tiled, out);  // "as the kernel chooses"
  return out.take();
}

int situation_count() { return class_base() + static_cast<int>(classes().size()); }

std::string situation_name(uint16_t id) {
  const auto within = [&](int base, int end) { return id >= base && id < end; };
  if (within(kOutcome, kKind)) return kOutcomeNames[id - kOutcome];
  if (within(kKind, kTile)) return cat("kind: ", to_string(static_cast<Kind>(id - kKind)));
  if (within(kTile, kRow)) {
    const int at = id - kTile;
    return cat(kPlaces[at % count(kPlaces)], " kv tile ", kTileStates[at / count(kPlaces)]);
  }
  if (within(kRow, kDiagonal)) return kRows[id - kRow];
  if (within(kGrid, kEnds)) {
    const int at = id - kGrid, k = at % count(kTiles), q = at / count(kTiles) % count(kTiles);
    const int heads = at / count(kTiles) / count(kTiles);
    return cat(kHeads[heads % count(kHeads)], heads < count(kHeads) ? "" : " causal", ", of queries ",
               kTiles[q], ", of keys ", kTiles[k]);
  }
  if (within(kEnds, kEmptySplit)) {
    const int at = id - kEnds, both = at / count(kTiles);
    return cat("seq_q ", kBorders[both / count(kBorders)], " and seq_k ", kBorders[both % count(kBorders)],
               ", ", kTiles[at % count(kTiles)], " of keys");
  }
  if (within(kDiagonal, kGrid)) {
    const int at = id - kDiagonal;
    return cat("bottom-right diagonal ", kBorders[at / count(kTiles)], ", ", kTiles[at % count(kTiles)]);
  }
  if (within(kEmptySplit, kPath)) return kEmpty[id - kEmptySplit];
  if (within(kPath, kRatio)) {
    const int at = id - kPath;
    return cat("path #", at / kVariants, ", variant ", at % kVariants);
  }
  if (within(kRatio, kFeature)) {
    const int at = id - kRatio, bucket = at % kRatios;
    const std::string where = bucket == 0             ? "0"
                              : bucket == kRatios - 1 ? "above 1"
                                                      : cat("up to 2^", bucket + kLeastRatio - 1);
    return cat(kDtypes[at / kRatios], ": error/bound ", where);
  }
  if (within(class_base(), situation_count())) {
    const auto& [axis, at] = classes()[static_cast<size_t>(id - class_base())];
    return cat(axis->name, " ", axis->classes[static_cast<size_t>(at)]);
  }
  if (within(kFeature, class_base())) {
    const int at = (id - kFeature) % pairs();
    int j = 0;
    while (pair(0, j + 1) <= at) ++j;
    const int i = at - pair(0, j);
    const std::string name =
        cat(kDtypes[(id - kFeature) / pairs()], ": ", paired()[static_cast<size_t>(j)].name);
    return i == j ? name : cat(name, " with ", paired()[static_cast<size_t>(i)].name);
  }
  return "";
}

}  // namespace attnfuzz
