// A sink is one more key with K = 0 and V = 0, whose bias is the sink. The same kernel computes both with
// different code. This shows a sink that is scaled, counted once per split, or left out of the LSE.
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

// The zeros of the new key are planted values, of which a case may have at most this many.
constexpr int64_t kMostSinkAsKeyPlanted = 16384;

bool adapt_sink_as_key(Case& c, const KernelInfo&, std::string*) {
  Problem& p = c.problem;
  if (!p.sink) p.sink = Sink{.kind = SinkKind::kMixed, .seed = c.k.seed % 65536};
  // Nothing may hide the new key, or weigh it by its distance.
  p.slopes.reset();
  show_everything(p);
  c.nan_beyond_lengths = false;
  c.once = {};
  c.planted.clear();
  if (p.batch * p.heads_kv * (p.dim_qk + p.dim_v) > kMostSinkAsKeyPlanted) p.batch = 1;
  if (p.heads_kv * (p.dim_qk + p.dim_v) > kMostSinkAsKeyPlanted) p.heads_q = p.heads_kv = 1;
  fit_memory(c);
  return true;
}

Case with_one_more_key(const Case& base) {
  Case c = variant_of(base);
  Problem& p = c.problem;
  const int64_t key = p.seq_k++;
  for (int64_t h = 0; h < p.heads_q; ++h) {
    const double sink = value_at(base, TensorId::kSink, 0, h, 0, 0);
    c.planted.push_back({TensorId::kBias, 0, h, 0, key, bits_of(ATTN_F32, static_cast<float>(sink))});
  }
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t g = 0; g < p.heads_kv; ++g) {
      for (int64_t d = 0; d < p.dim_qk; ++d) c.planted.push_back({TensorId::kK, b, g, key, d, 0});
      for (int64_t d = 0; d < (p.latent ? 0 : p.dim_v); ++d)
        c.planted.push_back({TensorId::kV, b, g, key, d, 0});
    }
  }
  p.bias.emplace().broadcast = {.batch = true, .query = true};
  p.sink.reset();
  fit_memory(c);
  return c;
}

// True if the LSE that is due leaves the sink out. The caller of a check decides that, not an untrusted plan.
bool is_due_without_sink(const Calibration& calibration, const attn_plan& plan) {
  return (calibration.error_cap ? *calibration.error_cap : plan).lse_sink != 0;
}

void check_sink_as_key(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || is_due_without_sink(trial.calibration(), base->plan) || base->reference.rows == 0) return;
  if (const Run* run = trial.run(with_one_more_key(base->c), "the sink as one more key"))
    trial.all_within(*base, *run, "a sink against one more key");
}

}  // namespace

extern const Property sink_as_key = {
    .name = "sink_as_key",
    .statement = "a sink is one more key with K = 0, V = 0 and the sink as its bias",
    .adapt = adapt_sink_as_key,
    .check = check_sink_as_key,
    .features = ATTN_FEATURE_SINK};

}  // namespace attnfuzz::relations
