// An element of 8-bit K and V is a code times a scale. If scales are powers of two, 16 bits hold the elements
// exactly, so the same problem in 16 bits must give the same result. This shows a kernel that reads the scale
// of another head, key or tensor, or decodes a code as another format.
#include "properties/case/places/planted_rank.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

constexpr int64_t kMostValues = 20480;  // each is planted

int64_t values_of(const Problem& p) { return p.batch * p.heads_kv * p.seq_k * (p.dim_qk + p.dim_v); }

// Replaces fills whose codes times 2^-3 to 2^3 may not be exact in fp16.
void keep_small(Fill& fill) {
  if (fill.kind == FillKind::kHuge || fill.kind == FillKind::kSubnormal || fill.kind == FillKind::kPosition)
    fill = {.kind = FillKind::kGaussian, .seed = fill.seed};
  fill.exponent = std::clamp(fill.exponent, -2, 2);
}

// Makes K and V small enough to plant each value. Head dimensions stay, because many kernels take only some, and so
// does the number of keys modulo 64.
void make_few(Problem& p) {
  constexpr int64_t kFewKeys = 66;  // more than one tile of most kernels
  if (values_of(p) <= kMostValues) return;
  p.batch = 1;
  if (p.key_lengths) p.key_lengths->resize(1);
  const auto most_keys = [&] { return kMostValues / (p.heads_kv * (p.dim_qk + p.dim_v)); };
  for (const int64_t heads : {2, 1}) {
    if (p.heads_kv > heads && most_keys() < std::min(p.seq_k, kFewKeys))
      p.heads_q = p.heads_q / p.heads_kv * heads, p.heads_kv = heads;
  }
  const bool equal = p.seq_q == p.seq_k;
  while (p.seq_k > most_keys() && p.seq_k > 64) p.seq_k -= 64;
  p.seq_k = std::min(p.seq_k, most_keys());
  if (equal) p.seq_q = p.seq_k;
}

bool adapt_kv8_as_16(Case& c, const KernelInfo&, std::string* why) {
  Problem& p = c.problem;
  if (p.latent || p.dtype == ATTN_F32) {
    *why = "it has a latent V or is in fp32";
    return false;
  }
  if (!p.kv8)
    set_kv8(c, Kv8{.k = {.kind = ScaleKind::kPowers, .heads = true},
                   .v = {.kind = ScaleKind::kPowers, .keys = true}});
  for (KvScales* scales : {&p.kv8->k, &p.kv8->v}) scales->kind = ScaleKind::kPowers;
  drop_planted(c, TensorId::kK);
  drop_planted(c, TensorId::kV);
  keep_small(c.k), keep_small(c.v);
  c.once.k = c.once.v = {};
  make_few(p);
  fit_memory(c);
  return true;
}

Case in_16_bits(const Case& base) {
  Case c = variant_of(base);
  set_kv8(c, std::nullopt);
  const Problem& p = base.problem;
  Case held = base;
  held.nan_beyond_lengths = false;
  for (const TensorId t : {TensorId::kK, TensorId::kV}) {
    const int64_t columns = t == TensorId::kK ? p.dim_qk : p.dim_v;
    for (int64_t b = 0; b < p.batch; ++b) {
      for (int64_t g = 0; g < p.heads_kv; ++g) {
        const std::vector<double> values = matrix_at(held, t, b, g);
        for (int64_t j = 0; j < p.seq_k; ++j)
          for (int64_t d = 0; d < columns; ++d)
            c.planted.push_back(
                {t, b, g, j, d,
                 bits_of(p.dtype, static_cast<float>(values[static_cast<size_t>(j * columns + d)]))});
      }
    }
  }
  c.nan_beyond_lengths = false;  // every element is planted
  fit_memory(c);
  return c;
}

void check_kv8_as_16(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  if (const Run* run = trial.run(in_16_bits(base->c), "the same numbers in 16 bits"))
    trial.all_within(*base, *run, "8 bits with scales against the same numbers in 16 bits");
}

}  // namespace

extern const Property kv8_as_16 = {.name = "kv8_as_16",
                                   .statement = "K and V of 8 bits give what the same numbers give in 16 bits",
                                   .adapt = adapt_kv8_as_16,
                                   .check = check_kv8_as_16,
                                   .features = ATTN_FEATURE_KV8,
                                   .kv8 = true};

}  // namespace attnfuzz::relations
