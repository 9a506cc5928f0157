#include <algorithm>

#include "properties/case/geometry.h"
#include "properties/data/recipe.h"
#include "properties/draw/generator.h"

namespace attnfuzz {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Rows looked at, at most: some, spread evenly, tell enough of a large case.
constexpr int64_t kRowsAsked = 512;

bool has_dead_row(const Case& c) {
  const Problem& p = c.problem;
  const int64_t rows = p.batch * p.heads_q * p.seq_q;
  const int64_t step = std::max<int64_t>(rows / kRowsAsked, 1);
  for (int64_t row = 0; row < rows; row += step) {
    const int64_t i = row % p.seq_q, h = row / p.seq_q % p.heads_q, b = row / p.seq_q / p.heads_q;
    bool dead = true;
    for (int64_t j = 0; dead && j < p.seq_k; ++j) dead = !sees(c, b, h, i, j);
    if (dead) return true;
  }
  return false;
}

// Whether an element lies further than 2^31 elements from the first.
bool is_far(const Case& c) {
  for (int n = 0; n < kTensorCount; ++n) {
    const auto t = static_cast<TensorId>(n);
    if (c.layout[static_cast<size_t>(n)].spread == 0 || t == TensorId::kWorkspace || !is_present(c, t))
      continue;
    const auto g = geometry(c, t);
    if (g && g->span_bytes / g->element_bytes > int64_t{1} << 31) return true;
  }
  return false;
}

bool is_unusual(const TensorLayout& layout) { return layout != TensorLayout{}; }
bool is_at_page_end(const TensorLayout& layout) { return layout.placement == Placement::kPageEnd; }

// A case on a kernel's tiles.
struct Placed {
  const Case& c;
  const Problem& p;
  int64_t tile_q, tile_k;
};

struct Feature {
  const char* name;
  bool (*is_there)(const Placed& x);
};

// Ledgers hold these names: one that is changed is one that old ledgers miss.
constexpr Feature kFeatures[] = {
    {"kv tiles >= 3", [](const Placed& x) { return ceil_div(x.p.seq_k, x.tile_k) >= 3; }},
    {"query tiles >= 2", [](const Placed& x) { return ceil_div(x.p.seq_q, x.tile_q) >= 2; }},
    {"kv tail", [](const Placed& x) { return x.p.seq_k % x.tile_k != 0; }},
    {"kv exact tiles", [](const Placed& x) { return x.p.seq_k > 0 && x.p.seq_k % x.tile_k == 0; }},
    {"zero length", [](const Placed& x) { return x.p.batch == 0 || x.p.seq_q == 0 || x.p.seq_k == 0; }},
    {"sq != sk", [](const Placed& x) { return x.p.seq_q != x.p.seq_k; }},
    {"gqa", [](const Placed& x) { return x.p.heads_q != x.p.heads_kv; }},
    {"dv != dk", [](const Placed& x) { return x.p.dim_qk != x.p.dim_v; }},
    {"d % 8 != 0", [](const Placed& x) { return x.p.dim_qk % 8 != 0 || x.p.dim_v % 8 != 0; }},
    {"bf16", [](const Placed& x) { return x.p.dtype == ATTN_BF16; }},
    {"causal", [](const Placed& x) { return x.p.causal; }},
    {"causal bottom-right", [](const Placed& x) { return x.p.causal && x.p.align == ATTN_BOTTOM_RIGHT; }},
    {"window", [](const Placed& x) { return x.p.window_left >= 0 || x.p.window_right >= 0; }},
    {"softcap", [](const Placed& x) { return x.p.softcap > 0; }},
    {"scale <= 0", [](const Placed& x) { return x.p.scale <= 0; }},
    {"key lengths", [](const Placed& x) { return x.p.key_lengths.has_value(); }},
    {"bias", [](const Placed& x) { return x.p.bias.has_value(); }},
    {"bias with -inf", [](const Placed& x) { return x.p.bias && x.p.bias->finite.kind != PatternKind::kAll; }},
    {"mask", [](const Placed& x) { return x.p.mask.has_value(); }},
    {"dead rows", [](const Placed& x) { return has_dead_row(x.c); }},
    {"equal scores", [](const Placed& x) { return x.c.q.kind == FillKind::kZero || x.p.scale == 0; }},
    {"length >= 2^15", [](const Placed& x) { return std::max(x.p.seq_q, x.p.seq_k) >= 32768; }},
    {"grid > 65535", [](const Placed& x) { return x.p.batch > 65535 || x.p.heads_q > 65535; }},
    {"splits", [](const Placed& x) { return x.p.num_splits > 1; }},
    {"splits > tiles", [](const Placed& x) { return x.p.num_splits > ceil_div(x.p.seq_k, x.tile_k); }},
    {"planted NaN or Inf", [](const Placed& x) { return !x.c.planted.empty(); }},
    {"NaN beyond lengths", [](const Placed& x) { return x.c.nan_beyond_lengths; }},
    {"layout", [](const Placed& x) { return std::ranges::any_of(x.c.layout, is_unusual); }},
    {"page end", [](const Placed& x) { return std::ranges::any_of(x.c.layout, is_at_page_end); }},
    {"offsets > 2^31", [](const Placed& x) { return is_far(x.c); }},
    {"repeated calls", [](const Placed& x) { return x.c.calls.size() > 1; }},
    {"dirty workspace", [](const Placed& x) { return std::ranges::any_of(x.c.calls, &Call::dirty_workspace); }},
    {"random schedule", [](const Placed& x) { return x.c.env.schedule_seed != 0; }},
    {"other variant", [](const Placed& x) { return x.c.env.variant != 1; }},
};

}  // namespace

std::vector<std::string> features(const Case& c, int64_t tile_q, int64_t tile_k) {
  const Placed placed = {c, c.problem, tile_q, tile_k};
  std::vector<std::string> names;
  for (const Feature& feature : kFeatures) {
    if (feature.is_there(placed)) names.emplace_back(feature.name);
  }
  return names;
}

std::vector<std::string> feature_names() {
  std::vector<std::string> names;
  for (const Feature& feature : kFeatures) names.emplace_back(feature.name);
  return names;
}

}  // namespace attnfuzz
