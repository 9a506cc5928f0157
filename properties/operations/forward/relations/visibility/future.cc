// Keys that no row of their head may see must not matter. Their values change here, to other finite ones and,
// past the lengths, to and from NaN; no bit of the result may change. The keys are hidden by causality, window
// or length, because kernels skip those by index arithmetic.
#include <algorithm>

#include "properties/operations/forward/relations/tools.h"
#include "reference/semantics.h"

namespace attnfuzz::relations {
namespace {

// The keys that position alone lets some query of batch entry b see: [first, last).
KeyRange seen(const Problem& p, int64_t b) {
  const int64_t length = key_length(p, b);
  if (p.seq_q == 0 || length == 0) return {0, 0};
  // Ranges move monotonically with the query, so the first and the last bound all.
  const int64_t first = key_range(p, length, 0).first;
  const int64_t last = std::min(key_range(p, length, p.seq_q - 1).last, length);
  return first < last ? KeyRange{first, last} : KeyRange{0, 0};
}

bool some_hidden(const Problem& p) {
  for (int64_t b = 0; b < p.batch; ++b) {
    const KeyRange span = seen(p, b);
    if (span.first > 0 || span.last < p.seq_k) return true;
  }
  return false;
}

bool adapt_future(Case& c, const KernelInfo&, std::string*) {
  Problem& p = c.problem;
  c.once = {};         // a value planted for one entry must not appear in another
  drop_non_finite(c);  // if a kernel does not isolate masked values, infinity times 0 is NaN
  if (p.batch == 0) p.batch = 1;
  if (p.key_lengths) p.key_lengths->resize(p.batch, p.seq_k);
  if (some_hidden(p)) return true;
  if (p.seq_k < 2) p.seq_k = 2;
  if (!p.key_lengths) p.key_lengths.emplace(p.batch, p.seq_k);
  for (int64_t& length : *p.key_lengths) length = std::min(length, p.seq_k - 1);
  fit_memory(c);
  return true;
}

// Replaces a few hidden keys: those next to the border, where a tile reaches over it, and the farthest one.
Case other_numbers(const Case& base) {
  Case c = variant_of(base);
  const Problem& p = c.problem;
  constexpr size_t kMost = 512;
  const float largest = p.dtype == ATTN_F16 ? 32768.0f : 0x1p60f;
  std::vector<Planted> planted;
  for (int64_t b = 0; b < p.batch; ++b) {
    const KeyRange span = seen(p, b);
    std::vector<int64_t> keys;
    for (const int64_t j : {span.last, span.last + 1, p.seq_k - 1, span.first - 1, int64_t{0}}) {
      const bool hidden = j >= 0 && j < p.seq_k && (j < span.first || j >= span.last);
      if (hidden && std::find(keys.begin(), keys.end(), j) == keys.end()) keys.push_back(j);
    }
    for (int64_t g = 0; g < p.heads_kv; ++g) {
      for (const int64_t j : keys) {
        for (const int64_t d : {int64_t{0}, p.dim_v - 1}) {
          const float value = (choice(base, j + d) & 1) != 0 ? largest : -3.0f;
          planted.push_back({p.latent ? TensorId::kK : TensorId::kV, b, g, j, d, bits_of(p.dtype, value)});
        }
        planted.push_back({TensorId::kK, b, g, j, 0, bits_of(p.dtype, 4.0f)});
        planted.push_back({TensorId::kK, b, g, j, p.dim_qk - 1, bits_of(p.dtype, -2.0f)});
      }
    }
  }
  if (planted.size() > kMost) planted.resize(kMost);
  c.planted.insert(c.planted.end(), planted.begin(), planted.end());
  // Keeps one value for each place: the last one, which is new.
  for (size_t n = 0; n < c.planted.size(); ++n) {
    const Planted x = c.planted[n];
    const auto same = [&x](const Planted& y) {
      return x.tensor == y.tensor && x.b == y.b && x.h == y.h && x.s == y.s && x.d == y.d;
    };
    if (std::any_of(c.planted.begin() + n + 1, c.planted.end(), same)) c.planted.erase(c.planted.begin() + n--);
  }
  return c;
}

void check_future(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const Run* run = trial.run(other_numbers(base->c), "other numbers in hidden keys");
  if (!run || !all_agree(trial, *base, *run, "other numbers in keys that no row sees")) return;
  if (!base->c.problem.key_lengths) return;
  Case other = variant_of(base->c);
  other.nan_beyond_lengths = !other.nan_beyond_lengths;
  const char* label = other.nan_beyond_lengths ? "NaN beyond the lengths" : "numbers beyond the lengths";
  run = trial.run(other, label);
  if (run) all_agree(trial, *base, *run, label);
}

}  // namespace

extern const Property future = {"future", "keys and values that no row may see do not matter, to the last bit",
                                adapt_future, check_future};

}  // namespace attnfuzz::relations
