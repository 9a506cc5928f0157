// A key does not affect blocks that it is not in, nor any block of another packed entry. Some keys and values
// become NaN; all blocks without them must keep their bits.
#include <algorithm>
#include <limits>

#include "properties/operations/forward/relations/storage/packed_tools.h"

namespace attnfuzz::operations {
extern const Operation nsa_compress;
}

namespace attnfuzz::relations {
namespace {

bool adapt_compress_outside(Case& c, const KernelInfo&, std::string*) {
  c.once.k = c.once.v = {};
  return true;
}

// The key of an entry that becomes NaN: the one before a block, the one behind it, the last one, or any.
KeyRange key_to_change(const Case& c, int64_t keys) {
  const Problem& p = c.problem;
  const auto any = static_cast<int64_t>(choice(c, 1) % static_cast<uint64_t>(keys));
  const int64_t first = any / p.key_step * p.key_step;
  const int64_t some[] = {first - 1, first + p.key_offset + 1, keys - 1, any};
  const int64_t key = std::clamp<int64_t>(some[choice(c, 2) % 4], 0, keys - 1);
  return {key, key + 1};
}

// True if block at.i of an entry has one of its keys that change.
bool holds_any(const Problem& p, const Row& at, const ChangedKeys& keys) {
  if (at.b >= std::ssize(keys)) return false;
  const KeyRange& range = keys[static_cast<size_t>(at.b)];
  const int64_t first = at.i * p.key_step;
  return range.first < range.last && range.first >= first && range.first <= first + p.key_offset;
}

void check_compress_outside(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || base->c.problem.seq_k == 0 || base->reference.rows == 0) return;
  const Problem& p = base->c.problem;
  const ChangedKeys keys = changed_keys(base->c, key_to_change);
  constexpr const char* kWhat = "NaN in a key outside of the block";
  const Run* run = trial.run(with_changed_keys(base->c, keys, std::numeric_limits<float>::quiet_NaN()), kWhat);
  if (!run) return;
  for (int64_t row = 0; row < base->reference.rows; ++row) {
    if (base->reference.state[static_cast<size_t>(row)] == RowState::kAbsent) continue;
    if (holds_any(p, RowSpace(p).at(row), keys)) continue;
    if (!agree(trial, *base, row, *run, row, kWhat)) return;
  }
}

}  // namespace

extern const Property compress_outside = {
    .name = "compress_outside",
    .statement = "keys outside of a block do not matter to it, to the last bit",
    .adapt = adapt_compress_outside,
    .check = check_compress_outside,
    .operation = &operations::nsa_compress,
    .packed = true};

}  // namespace attnfuzz::relations
