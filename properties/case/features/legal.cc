#include <algorithm>

#include "properties/case/case.h"
#include "properties/case/features/feature.h"
#include "properties/case/places/geometry.h"
#include "properties/case/places/packed.h"

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

// The judge holds each result as if all packed entries were as long as the longest: a number of the kernel, and
// a value, a bound and a rule.
constexpr int64_t kJudgedBytes = sizeof(float) + 2 * sizeof(double) + 1;
// More than the results of a case without packed entries take.
constexpr int64_t kMostJudged = 8 * kMaxCaseBytes;

Complaint too_much_to_judge(const Case& c) {
  const Problem& p = c.problem;
  Wide bytes = 0;
  for (const TensorSpec& spec : kTensors) {
    if (!is_written(spec) || !is_present(c, spec.id) || !packing_of(p, spec.id)) continue;
    Wide elements = 1;
    for (const int64_t size : logical_size(p, spec.id)) elements *= size;
    bytes += elements * kJudgedBytes;
  }
  if (bytes <= kMostJudged) return std::nullopt;
  return cat(p.packed_q ? "packed_q" : "packed_k", ": judging the results takes ",
             static_cast<int64_t>(bytes >> 30), " GiB, because each of ", p.batch,
             " entries counts with seq_q = ", p.seq_q, " queries and seq_k = ", p.seq_k, " keys; at most ",
             kMostJudged >> 30, " GiB are taken: make these or the batch smaller");
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
  if (auto why = bad_memory(c)) return why;
  return too_much_to_judge(c);
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
