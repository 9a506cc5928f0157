// A latent V is the first columns of K. The same values stored separately must give the same result. This shows
// a kernel that reads V from its tile of K at a wrong column, row or buffer.
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_latent_as_v(Case& c, const KernelInfo&, std::string*) {
  Problem& p = c.problem;
  if (!p.latent) {
    p.latent = true;
    p.dim_v = std::min(p.dim_v, p.dim_qk);
    c.v = Fill{};
    c.once.v = {};
    drop_planted(c, TensorId::kV);
  }
  // A fill that depends on the number of columns would give a separate V other values.
  if (p.dim_v != p.dim_qk && depends_on_columns(c.k.kind)) c.k = Fill{.kind = FillKind::kGaussian, .seed = 1};
  fit_memory(c);
  return true;
}

void check_latent_as_v(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  store_v_apart(other);
  fit_memory(other);
  if (const Run* run = trial.run(other, "V stored apart"))
    all_agree(trial, *base, *run, "a latent V against one stored apart");
}

}  // namespace

extern const Property latent_as_v = {.name = "latent_as_v",
                                     .statement = "V in K's first columns gives what V stored apart gives",
                                     .adapt = adapt_latent_as_v,
                                     .check = check_latent_as_v,
                                     .features = ATTN_FEATURE_LATENT,
                                     .packed = true};

}  // namespace attnfuzz::relations
