#include "properties/train_step/setup.h"

#include <algorithm>
#include <cmath>

#include "properties/case/features/domain.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/words.h"
#include "properties/judge/execution.h"
#include "properties/train_step/reasons.h"

namespace attnfuzz::train {
namespace {

std::vector<Setup> setups(Gates gates) {
  std::vector<Setup> all;
  for (const bool causal : {true, false}) {
    for (const int32_t dtype : {ATTN_F16, ATTN_BF16}) {
      for (const int64_t dim : {16, 32, 64, 128}) {
        for (const int64_t heads_kv : {1, 2}) {
          Setup setup;
          setup.causal = causal;
          setup.model.gates = gates;
          setup.model.heads_kv = heads_kv;
          setup.model.dim = dim;
          setup.model.dtype = dtype;
          all.push_back(setup);
        }
      }
    }
  }
  return all;
}

// Tells whether both kernels take a batch of this kind; if not, notes why they do not take the first.
bool take_any(std::span<const Batch> batches, bool packed, const Setup& setup, const TrainStep& on,
              Reasons& reasons) {
  std::string first;
  for (const Batch& batch : batches) {
    if (batch.packed != packed) continue;
    const std::string why = refused_by(batch, setup, on);
    if (why.empty()) return true;
    if (first.empty()) first = why;
  }
  reasons.add(first);
  return false;
}

}  // namespace

std::string refusal_of(const Case& c, Target& target) {
  if (const auto& domain = target.info().domain) {
    Case inside = c;
    fit(*domain, inside);
    if (!(inside == c)) return target.info().name + " does not declare to take " + attnfuzz::describe(c);
  }
  const std::string why = why_not(plan_alone(c, target));
  return why.empty() ? "" : target.info().name + ": " + why;
}

Choice choose_setup(const TrainStep& on, std::span<const Batch> batches, Gates gates) {
  const bool may_pack = (on.forward.info().features & on.backward.info().features & ATTN_FEATURE_RAGGED) != 0;
  Choice best;
  int best_rank = 0;
  Reasons dense, packed;
  for (Setup setup : setups(gates)) {
    setup.packed = may_pack;
    const bool takes_dense = take_any(batches, false, setup, on, dense);
    const bool takes_packed = may_pack && take_any(batches, true, setup, on, packed);
    const int rank = 2 * takes_dense + takes_packed;
    if (rank > best_rank) best_rank = rank, best.setup = setup;
    if (takes_dense && takes_packed == may_pack) break;
  }
  if (!best.setup)
    best.why =
        cat("dense: ", dense.text(),
            "; packed: ", may_pack ? packed.text() : std::string("not both kernels have ATTN_FEATURE_RAGGED"));
  return best;
}

Case case_of(const Batch& batch, int step, const Setup& setup, const Operation& operation,
             const KernelInfo& kernel) {
  const std::vector<int64_t> lengths = lengths_of(batch, step);
  Case c;
  Problem& p = c.problem;
  p.features = operation.feature;
  p.dtype = setup.model.dtype;
  p.batch = static_cast<int64_t>(lengths.size());
  p.heads_q = setup.model.heads_q;
  p.heads_kv = setup.model.heads_kv;
  p.seq_q = p.seq_k = std::ranges::max(lengths);
  p.dim_qk = p.dim_v = setup.model.dim;
  p.scale = 1 / std::sqrt(static_cast<float>(setup.model.dim));
  p.causal = setup.causal;
  if (batch.packed) {
    p.packed_q = p.packed_k = Packing{.lengths = lengths, .slack = 3};
    if ((kernel.features & ATTN_FEATURE_INDEX32) != 0) p.index_dtype = ATTN_INDEX_32;  // as frameworks have it
  }
  uint64_t seed = 1;
  for (Fill Case::* const fill : {&Case::q, &Case::k, &Case::v, &Case::dout})
    c.*fill = {.kind = FillKind::kGaussian, .seed = seed++};
  if (operation.feature == 0) c.dout = Fill{};
  c.env.variant = 0;  // the kernel chooses
  c.calls = {Call{}, Call{.dirty_workspace = true}};
  if (kernel.domain && kernel.domain->align)
    p.align = kernel.domain->align - 1;  // with equal lengths both alignments are the same
  tidy(c);
  if (kernel.domain) lay_within(*kernel.domain, c);
  return c;
}

std::string refused_by(const Batch& batch, const Setup& setup, const TrainStep& on) {
  std::string why;
  for (int step = 1; step <= kSteps && why.empty(); ++step) {
    const auto refusal = [&](uint64_t operation, Target& target) {
      return refusal_of(case_of(batch, step, setup, operation_of(operation), target.info()), target);
    };
    why = refusal(0, on.forward);
    if (why.empty()) why = refusal(ATTN_FEATURE_BACKWARD, on.backward);
  }
  return why;
}

}  // namespace attnfuzz::train
