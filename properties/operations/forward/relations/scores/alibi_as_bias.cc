// A slope is a bias of -slope * distance. The same kernel computes both with different code. This shows a
// distance that is counted from a wrong diagonal, from the start of a tile, or without the offset of a decode.
#include "properties/operations/forward/relations/tools.h"
#include "reference/semantics.h"

namespace attnfuzz::relations {
namespace {

// The most values that are planted to set the bias.
constexpr int64_t kMostAlibiAsBiasPlanted = 8192;

// Slopes with few bits. Their product with a distance is exact in fp32, so both problems have the same exact
// result.
SlopeKind of_few_bits(SlopeKind kind) {
  return kind == SlopeKind::kNegative || kind == SlopeKind::kMixed || kind == SlopeKind::kSteep
             ? SlopeKind::kSteep
             : SlopeKind::kPowers;
}

bool adapt_alibi_as_bias(Case& c, const KernelInfo&, std::string*) {
  Problem& p = c.problem;
  if (!p.slopes) p.slopes = Slopes{.kind = SlopeKind::kMixed, .entries = p.batch > 1, .seed = c.k.seed % 65536};
  p.slopes->kind = of_few_bits(p.slopes->kind);
  p.bias.reset();
  c.planted.clear();
  keep_few_pairs(c, kMostAlibiAsBiasPlanted);
  return true;
}

// The same case with a bias instead of slopes. The bias is 0 at keys that are hidden anyway.
Case with_bias(const Case& base) {
  Case c = variant_of(base);
  Problem& p = c.problem;
  for (int64_t b = 0; b < p.batch; ++b) {
    const int64_t length = key_length(p, b);
    for (int64_t h = 0; h < p.heads_q; ++h) {
      const double slope = value_at(base, TensorId::kSlopes, b, h, 0, 0);
      for (int64_t i = 0; i < p.seq_q; ++i) {
        const KeyRange range = key_range(p, length, i);
        for (int64_t j = range.first; j < range.last; ++j) {
          const double t = alibi(p, slope, length, i, j);
          if (t != 0)
            c.planted.push_back({TensorId::kBias, b, h, i, j, bits_of(ATTN_F32, static_cast<float>(t))});
        }
      }
    }
  }
  p.bias.emplace();
  p.slopes.reset();
  fit_memory(c);
  return c;
}

void check_alibi_as_bias(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || base->reference.rows == 0) return;
  if (const Run* run = trial.run(with_bias(base->c), "the slopes as a bias"))
    trial.all_within(*base, *run, "slopes against a bias");
}

}  // namespace

extern const Property alibi_as_bias = {.name = "alibi_as_bias",
                                       .statement = "slopes are a bias of -slope * distance",
                                       .adapt = adapt_alibi_as_bias,
                                       .check = check_alibi_as_bias,
                                       .features = ATTN_FEATURE_ALIBI};

}  // namespace attnfuzz::relations
