// A key length below 0 counts as 0, and a length above seq_k as seq_k, however far off it is. So a cache whose
// length exceeds its capacity is not read past its capacity.
#include <limits>

#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

// Sets at least one length to 0 or seq_k, so that a variant can move it further out.
bool adapt_lengths_clamped(Case& c, const KernelInfo&, std::string*) {
  Problem& p = c.problem;
  if (!p.key_lengths) p.key_lengths.emplace(static_cast<size_t>(p.batch), p.seq_k);
  for (const int64_t length : *p.key_lengths) {
    if (length <= 0 || length >= p.seq_k) return true;
  }
  if (p.batch > 0) p.key_lengths->back() = p.seq_k;
  return true;
}

// The least and the largest number of the lengths' format.
std::pair<int64_t, int64_t> limits(int32_t index_dtype) {
  using Wide = std::numeric_limits<int64_t>;
  using Narrow = std::numeric_limits<int32_t>;
  if (index_dtype == ATTN_INDEX_32) return {Narrow::min(), Narrow::max()};
  return {Wide::min(), Wide::max()};
}

// Lengths at or beyond an end become `low` and `high`.
Case beyond(const Case& base, int64_t low, int64_t high) {
  Case c = variant_of(base);
  for (int64_t& length : *c.problem.key_lengths) {
    if (length >= c.problem.seq_k) {
      length = high;
    } else if (length <= 0) {
      length = low;
    }
  }
  return c;
}

void check_lengths_clamped(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const auto [least, most] = limits(base->c.problem.index_dtype);
  const struct {
    const char* name;
    int64_t low, high;
  } variants[] = {{"lengths one beyond the ends", -1, base->c.problem.seq_k + 1},
                  {"lengths as far out as possible", least, most}};
  for (const auto& variant : variants) {
    const Run* run = trial.run(beyond(base->c, variant.low, variant.high), variant.name);
    if (!run || !all_agree(trial, *base, *run, variant.name)) return;
  }
}

}  // namespace

extern const Property lengths_clamped = {"lengths_clamped",
                                         "a key length outside 0..seq_k counts as the nearer end",
                                         adapt_lengths_clamped, check_lengths_clamped};

}  // namespace attnfuzz::relations
