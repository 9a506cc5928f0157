#include "reference/rows/key_block.h"

#include <algorithm>
#include <limits>

namespace attnfuzz {
namespace {

// Cuts spans at the ends of tiles.
void cut_into_tiles(const ErrorModel& model, int64_t first, KeyBlock* out) {
  for (const KeySpan& span : out->spans) {
    for (int64_t done = 0; done < span.count;) {
      const int64_t key = first + span.key + done, tile = key / model.tile_k;
      const int64_t count = std::min(span.count - done, (tile + 1) * model.tile_k - key);
      if (out->tiles.empty() || out->tiles.back().tile != tile)
        out->tiles.push_back({tile, out->tile_spans.size(), out->tile_spans.size(), false});
      out->tile_spans.push_back({span.key + done, span.position + done, count});
      ++out->tiles.back().end;
      done += count;
    }
  }
  if (model.key_order == ATTN_KEYS_DESCENDING) std::reverse(out->tiles.begin(), out->tiles.end());
  const auto split = [&](const KeyTile& tile) {
    return model.split_tiles > 0 ? tile.tile / model.split_tiles : 0;
  };
  for (size_t t = 0; t < out->tiles.size(); ++t)
    out->tiles[t].last = t + 1 == out->tiles.size() || split(out->tiles[t]) != split(out->tiles[t + 1]);
}

}  // namespace

const double* KeyPlaces::gather(const double* from, Buffer* room) const {
  if (each.empty()) return from + begin;
  if (static_cast<int64_t>(room->size()) < count) room->resize(static_cast<size_t>(count));
  for (size_t k = 0; k < each.size(); ++k) (*room)[k] = from[each[k]];
  return room->data();
}

double* KeyPlaces::place_for(int64_t positions, Buffer* to, Buffer* room) const {
  Buffer* of = each.empty() ? to : room;
  const int64_t size = each.empty() ? positions : count;
  if (static_cast<int64_t>(of->size()) < size) of->resize(static_cast<size_t>(size));
  return each.empty() ? of->data() + begin : of->data();
}

void KeyPlaces::spread(const double* from, int64_t positions, Buffer* to) const {
  if (static_cast<int64_t>(to->size()) < positions) to->resize(static_cast<size_t>(positions));
  double* at = to->data();
  if (each.empty()) {
    std::fill_n(at, begin, 0.0);
    if (from != at + begin) std::copy_n(from, count, at + begin);
    std::fill(at + begin + count, at + positions, 0.0);
    return;
  }
  std::fill_n(at, positions, 0.0);
  for (size_t k = 0; k < each.size(); ++k) at[each[k]] = from[k];
}

void KeyBlock::place(std::span<const int64_t> keys, KeyPlaces* out) const {
  const auto position = [&](int64_t key) {
    return slots[static_cast<size_t>(key / kLanes - panels[0])] * kLanes + key % kLanes;
  };
  out->count = static_cast<int64_t>(keys.size());
  out->begin = position(keys.front());
  out->each.clear();
  if (position(keys.back()) == out->begin + out->count - 1) return;
  for (const int64_t key : keys) out->each.push_back(position(key));
}

void make_key_block(const ErrorModel& model, int64_t first, int64_t count,
                    std::span<const std::span<const int64_t>> rows, KeyBlock* out) {
  int64_t lowest = std::numeric_limits<int64_t>::max(), highest = 0;
  for (const auto& keys : rows) {
    lowest = std::min(lowest, keys.front() / kLanes);
    highest = std::max(highest, keys.back() / kLanes);
  }
  std::vector<int64_t>& slots = out->slots;
  slots.assign(static_cast<size_t>(highest - lowest + 1), -1);
  for (const auto& keys : rows) {
    // Most rows see all keys between their first and their last.
    const int64_t from = keys.front() / kLanes, to = keys.back() / kLanes;
    if (keys.back() - keys.front() + 1 == static_cast<int64_t>(keys.size()))
      std::fill(slots.begin() + (from - lowest), slots.begin() + (to - lowest + 1), 0);
    else
      for (const int64_t key : keys) slots[static_cast<size_t>(key / kLanes - lowest)] = 0;
  }
  out->panels.clear();
  out->spans.clear();
  out->tile_spans.clear();
  out->tiles.clear();
  for (int64_t panel = lowest; panel <= highest; ++panel) {
    int64_t& slot = slots[static_cast<size_t>(panel - lowest)];
    if (slot < 0) continue;
    slot = static_cast<int64_t>(out->panels.size());
    const int64_t keys = std::min<int64_t>(kLanes, count - panel * kLanes);
    if (out->panels.empty() || out->panels.back() != panel - 1)
      out->spans.push_back({panel * kLanes, slot * kLanes, 0});
    out->spans.back().count += keys;
    out->panels.push_back(panel);
  }
  if (model.in_order()) cut_into_tiles(model, first, out);
}

}  // namespace attnfuzz
