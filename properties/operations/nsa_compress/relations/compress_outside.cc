// A key does not affect blocks that it is not in. Some keys and values become NaN; all blocks without them must
// keep their bits.
#include <algorithm>
#include <limits>

#include "properties/case/shrink_toggles.h"
#include "properties/judge/judge.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation nsa_compress;
}

namespace attnfuzz::relations {
namespace {

bool adapt_compress_outside(Case& c, const KernelInfo&, std::string*) {
  c.once.k = c.once.v = {};
  return true;
}

// The key that becomes NaN: the one before a block, the one behind it, the last one, or any.
int64_t changed_key(const Case& c) {
  const Problem& p = c.problem;
  const auto any = static_cast<int64_t>(choice(c, 1) % static_cast<uint64_t>(p.seq_k));
  const int64_t first = any / p.key_step * p.key_step;
  const int64_t keys[] = {first - 1, first + p.key_offset + 1, p.seq_k - 1, any};
  return std::clamp<int64_t>(keys[choice(c, 2) % 4], 0, p.seq_k - 1);
}

Case with_nan(const Case& base, int64_t key) {
  Case c = variant_of(base);
  const Problem& p = c.problem;
  const uint32_t bits = bits_of(p.dtype, std::numeric_limits<float>::quiet_NaN());
  for (int64_t b = 0; b < std::min<int64_t>(p.batch, 16); ++b) {
    for (int64_t g = 0; g < std::min<int64_t>(p.heads_kv, 16); ++g) {
      c.planted.push_back({TensorId::kK, b, g, key, p.dim_qk - 1, bits});
      c.planted.push_back({TensorId::kV, b, g, key, 0, bits});
    }
  }
  tidy(c);  // a later value replaces an earlier one in its place
  return c;
}

void check_compress_outside(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || base->c.problem.seq_k == 0 || base->reference.rows == 0) return;
  const Problem& p = base->c.problem;
  const int64_t key = changed_key(base->c);
  constexpr const char* kWhat = "NaN in a key outside of the block";
  const Run* run = trial.run(with_nan(base->c, key), kWhat);
  if (!run) return;
  for (int64_t row = 0; row < base->reference.rows; ++row) {
    const int64_t first = RowSpace(p).at(row).i * p.key_step;
    if (key >= first && key <= first + p.key_offset) continue;
    if (!agree(trial, *base, row, *run, row, kWhat)) return;
  }
}

}  // namespace

extern const Property compress_outside = {"compress_outside",
                                          "keys outside of a block do not matter to it, to the last bit",
                                          adapt_compress_outside,
                                          check_compress_outside,
                                          /*needs_stages=*/false,
                                          /*asks_target=*/false,
                                          /*compares=*/true,
                                          /*operation=*/&operations::nsa_compress};

}  // namespace attnfuzz::relations
