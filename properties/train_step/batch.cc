#include "properties/train_step/batch.h"

#include <algorithm>
#include <cmath>

#include "properties/case/domain.h"
#include "properties/case/shrink_toggles.h"
#include "properties/case/words.h"

namespace attnfuzz::train {

std::vector<int64_t> lengths_of(const Batch& batch) {
  if (!batch.packed) return {batch.length};
  const int64_t first = std::min(batch.length, batch.length / 2 + 1);
  return {first, 0, batch.length - first};
}

std::string describe(const Batch& batch) {
  std::string text = "S = " + std::to_string(batch.length), before = ", packed as ";
  if (!batch.packed) return text;
  for (const int64_t length : lengths_of(batch)) text += std::exchange(before, ", ") + std::to_string(length);
  return text;
}

Case case_of(const Batch& batch, const Setup& setup, const Operation& operation, const KernelInfo& kernel) {
  const std::vector<int64_t> lengths = lengths_of(batch);
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
  for (Fill Case::*const fill : {&Case::q, &Case::k, &Case::v, &Case::dout})
    c.*fill = {.kind = FillKind::kGaussian, .seed = seed++};
  if (operation.feature == 0) c.dout = Fill{};
  c.env.variant = 0;  // the kernel chooses
  c.calls = {Call{}, Call{.dirty_workspace = true}};
  if (kernel.domain && kernel.domain->align) p.align = kernel.domain->align - 1;  // with equal lengths both are one
  tidy(c);
  if (kernel.domain) lay_within(*kernel.domain, c);
  return c;
}

std::string refusal_of(const Case& c, Target& target) {
  if (const auto& domain = target.info().domain) {
    Case inside = c;
    fit(*domain, inside);
    if (!(inside == c)) return target.info().name + " does not declare to take " + attnfuzz::describe(c);
  }
  const std::string why = why_not(plan_alone(c, target));
  return why.empty() ? "" : target.info().name + ": " + why;
}

std::vector<float> by_sequence(std::span<const double> activations, std::span<const int64_t> lengths,
                               int64_t heads) {
  int64_t tokens = 0, longest = 0;
  for (const int64_t length : lengths) tokens += length, longest = std::max(longest, length);
  const int64_t columns = tokens == 0 ? 0 : static_cast<int64_t>(activations.size()) / tokens / heads;
  std::vector<float> out(lengths.size() * static_cast<size_t>(heads * longest * columns));
  for (int64_t b = 0, first = 0; b < static_cast<int64_t>(lengths.size());
       first += lengths[static_cast<size_t>(b)], ++b) {
    for (int64_t i = 0; i < lengths[static_cast<size_t>(b)]; ++i) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t c = 0; c < columns; ++c)
          out[static_cast<size_t>(((b * heads + h) * longest + i) * columns + c)] =
              static_cast<float>(activations[static_cast<size_t>(((first + i) * heads + h) * columns + c)]);
      }
    }
  }
  return out;
}

}  // namespace attnfuzz::train
