#include "reference/rows/tile_walk.h"

#include <algorithm>

#include "reference/rows/row_loops.h"
#include "reference/rows/row_terms.h"

namespace attnfuzz {
namespace {

// The runs [begin, end) of one split, in the order of work.
void walk_split(const ErrorModel& model, const double* x, const double* error, size_t begin, size_t end,
                TileWalk* out) {
  Maximum so_far;
  double growths = 0;
  for (size_t r = begin; r < end; ++r) {
    TileRun& run = out->runs[r];
    double largest_error;
    const Maximum tile =
        row_loops().reach(x + run.begin, error + run.begin, run.end - run.begin, &largest_error);
    out->largest_error = std::max(out->largest_error, largest_error);
    // The first tile rescales nothing.
    const bool grows = r > begin && tile.high > so_far.low;
    so_far.take(tile);
    run.max = so_far.exact;
    run.uncertain = so_far.uncertain(model);
    growths += grows && model.max_rule == ATTN_MAX_RUNNING;
    run.rescales = growths;  // growths up to this tile; below, those after it
  }
  for (size_t r = begin; r < end; ++r) {
    TileRun& run = out->runs[r];
    run.rescales = limited_rescales(model, growths - run.rescales);
    if (model.max_rule != ATTN_MAX_RUNNING) run.max = so_far.exact, run.uncertain = so_far.uncertain(model);
    out->split_max[r] = so_far.exact;
    out->split_uncertain[r] = so_far.uncertain(model);
  }
  out->rescales = std::max(out->rescales, limited_rescales(model, growths));
}

}  // namespace

void walk_tiles(const ErrorModel& model, int64_t first, const int64_t* keys, int64_t n, const double* x,
                const double* error, TileWalk* out) {
  std::vector<TileRun>& runs = out->runs;
  runs.clear();
  for (int64_t k = 0; k < n;) {
    const int64_t tile = (first + keys[k]) / model.tile_k, border = (tile + 1) * model.tile_k - first;
    // Usually every key up to the border is present.
    int64_t end = std::min(n, k + border - keys[k]);
    while (keys[end - 1] >= border) --end;
    runs.push_back({k, end, model.split_tiles > 0 ? tile / model.split_tiles : 0});
    k = end;
  }
  if (model.key_order == ATTN_KEYS_DESCENDING) std::reverse(runs.begin(), runs.end());
  out->split_max.resize(runs.size());
  out->split_uncertain.resize(runs.size());
  out->rescales = out->largest_error = 0;
  for (size_t begin = 0, end; begin < runs.size(); begin = end) {
    for (end = begin; end < runs.size() && runs[end].split == runs[begin].split; ++end) {
    }
    runs[end - 1].last = true;
    walk_split(model, x, error, begin, end, out);
  }
  if (model.max_rule == ATTN_MAX_UNKNOWN)
    out->rescales = rescales_of(model, first + keys[0], first + keys[n - 1]);
}

}  // namespace attnfuzz
