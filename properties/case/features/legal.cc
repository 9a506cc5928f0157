#include <algorithm>

#include "properties/case/case.h"
#include "properties/case/features/feature.h"
#include "properties/case/places/geometry.h"

namespace attnfuzz {
namespace {

using Wide = __int128;

Complaint bad_memory(const Case& c) {
  Wide bytes = 0;
  for (int n = 0; n < kTensorCount; ++n) {
    const auto t = static_cast<TensorId>(n);
    if (t == TensorId::kWorkspace || !is_present(c, t)) continue;
    const std::optional<Geometry> g = geometry(c, t);
    if (!g)
      return cat("layout.", kTensorNames[n],
                 ": the tensor does not fit 32 GiB; make its sizes, gaps or spread smaller");
    // A zero size counts as one, so that loops over empty batches and heads are bounded, too.
    Wide visited = g->element_bytes;
    for (int64_t size : g->size) visited *= std::max<int64_t>(size, 1);
    bytes += std::max<Wide>(g->touched_bytes, visited);
  }
  if (bytes > kMaxCaseBytes) {
    return "the tensors touch more than " + std::to_string(kMaxCaseBytes) + " bytes; make sizes smaller";
  }
  return std::nullopt;
}

}  // namespace

void store_v_apart(Case& c) {
  if (!c.problem.latent) return;
  c.problem.latent = false;
  c.v = c.k;
  c.once.v = c.once.k;
  const std::vector<Planted> planted = c.planted;
  for (const Planted& x : planted) {
    if (x.tensor == TensorId::kK && x.d < c.problem.dim_v)
      c.planted.push_back({TensorId::kV, x.b, x.h, x.s, x.d, x.bits});
  }
}

std::optional<std::string> illegal(const Case& c) {
  for (const Feature* feature : all_features()) {
    if (auto why = feature->illegal(c)) return why;
  }
  if (c.build_kind.empty()) return "lane is empty; the usual one is \"plain\"";
  return bad_memory(c);
}

void fit_memory(Case& c) {
  if (!illegal(c)) return;
  Case narrow = c;
  for (TensorLayout& layout : narrow.layout) layout.spread = 0;
  if (illegal(narrow)) narrow.layout = {};
  // If the case is illegal for another reason, it stays as it was.
  if (!illegal(narrow)) c.layout = narrow.layout;
}

}  // namespace attnfuzz
