// If keys stand for blocks, each query sees some of the keys. A bias of -infinity at all others hides the same
// keys with different code. This shows a block that is seen before its last key, or a length that counts keys
// instead of positions.
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/key_blocks.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation backward;
}

namespace attnfuzz::relations {
namespace {

// The most values that are planted in the bias.
constexpr int64_t kMostKeyBlocksAsBiasPlanted = 2048;

bool adapt_key_blocks_as_bias(Case& c, const KernelInfo&, std::string*) {
  Problem& p = c.problem;
  if (!has_key_blocks(p)) {
    p.slopes.reset();
    p.key_step = 1 + static_cast<int64_t>(choice(c, 1) % 5);
    p.key_offset = static_cast<int64_t>(choice(c, 2) % 8);
    p.causal = true;
  }
  p.bias.reset();
  drop_planted(c, TensorId::kBias);
  keep_few_pairs(c, kMostKeyBlocksAsBiasPlanted);
  tidy(c);  // values may be planted in rows that are gone
  return true;
}

// Block j has the keys j d .. j d + l - 1 of the longer sequence; the query sees it if it sees all of them.
// Written independently of reference/semantics.h.
bool sees_block(const Problem& p, int64_t length, int64_t diagonal, int64_t j) {
  const int64_t last = j * p.key_step + p.key_offset;
  if (last >= length || (p.causal && last > diagonal)) return false;
  return (p.window_left < 0 || diagonal - last <= p.window_left) &&
         (p.window_right < 0 || last - diagonal <= p.window_right);
}

Case with_bias_of_blocks(const Case& base) {
  Case c = variant_of(base);
  const Problem& p = base.problem;
  const uint32_t hidden = bits_of(ATTN_F32, -std::numeric_limits<float>::infinity());
  for (int64_t b = 0; b < p.batch; ++b) {
    const int64_t most = p.seq_k * p.key_step + p.key_offset;
    const int64_t length =
        p.key_lengths ? std::clamp<int64_t>((*p.key_lengths)[static_cast<size_t>(b)], 0, most) : most;
    for (int64_t row = 0; row < p.heads_q * p.seq_q; ++row) {
      const int64_t h = row / p.seq_q, i = row % p.seq_q;
      const int64_t diagonal = p.align == ATTN_BOTTOM_RIGHT ? i + length - p.seq_q : i;
      for (int64_t j = 0; j < p.seq_k; ++j)
        if (!sees_block(p, length, diagonal, j)) c.planted.push_back({TensorId::kBias, b, h, i, j, hidden});
    }
  }
  c.problem.bias.emplace();
  c.problem.causal = false;
  c.problem.window_left = c.problem.window_right = -1;
  give_up_key_blocks(c);
  fit_memory(c);
  return c;
}

void check_key_blocks_as_bias(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || base->reference.rows == 0) return;
  if (const Run* run = trial.run(with_bias_of_blocks(base->c), "the keys that are hidden by a bias"))
    trial.all_within(*base, *run, "keys of blocks against a bias that hides keys");
}

}  // namespace

extern const Property key_blocks_as_bias = {
    .name = "key_blocks_as_bias",
    .statement = "keys that stand for blocks give what a bias gives that hides blocks which are not seen whole",
    .adapt = adapt_key_blocks_as_bias,
    .check = check_key_blocks_as_bias,
    .features = ATTN_FEATURE_KEY_STEP,
    .kv8 = true,
    .key_blocks = true,
    .also = &operations::backward};

}  // namespace attnfuzz::relations
