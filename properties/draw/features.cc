#include <algorithm>

#include "properties/case/features/feature.h"
#include "properties/data/recipe.h"
#include "properties/draw/generator.h"
#include "reference/call/row_space.h"

namespace attnfuzz {
namespace {

// About this many rows of a large case are examined, spread evenly.
constexpr int64_t kRowsAsked = 512;

bool has_dead_row(const Case& c) {
  const RowSpace rows(c.problem);
  const int64_t step = std::max<int64_t>(rows.count() / kRowsAsked, 1);
  for (int64_t row = 0; row < rows.count(); row += step) {
    const auto [b, h, i] = rows.at(row);
    if (i >= lengths_of(c.problem, b).queries) continue;  // packed entries may be shorter
    bool dead = true;
    for (int64_t j = 0; dead && j < c.problem.seq_k; ++j) dead = !sees(c, b, h, i, j);
    if (dead) return true;
  }
  return false;
}

// A feature that depends on several fields.
constexpr const char* kDeadRows = "dead rows";

std::vector<std::string> tags(auto&& wanted) {
  std::vector<std::string> names;
  for (const Feature* feature : all_features()) {
    for (const Tag& tag : feature->tags) {
      if (tag.use != TagUse::kPairs && wanted(tag)) names.emplace_back(tag.name);
    }
  }
  return names;
}

}  // namespace

std::vector<std::string> features(const Case& c, int64_t tile_q, int64_t tile_k) {
  // If an operation has no keys, they count as many as the queries, and dim_qk counts as dim_v.
  const bool keys = attends(c.problem.features);
  Problem shown = c.problem;
  if (!keys) shown.seq_k = shown.seq_q, shown.dim_qk = shown.dim_v;
  const Tiled tiled = {c, shown, tile_q, tile_k, c.problem.num_splits};
  std::vector<std::string> names = tags([&](const Tag& tag) { return tag.there(tiled); });
  if (keys && has_dead_row(c)) names.emplace_back(kDeadRows);
  return names;
}

std::vector<std::string> feature_names() {
  std::vector<std::string> names = tags([](const Tag&) { return true; });
  names.emplace_back(kDeadRows);
  return names;
}

}  // namespace attnfuzz
