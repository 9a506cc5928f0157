// Draws the number of batch entries of a case whose entries have rows of their own: packed ones, and those in pages.
#pragma once

#include <algorithm>

#include "properties/case/features/feature.h"
#include "properties/case/size_set.h"

namespace attnfuzz {

// A case with longer sequences gets neither packed entries nor pages, because each entry could be as long.
inline int64_t most_rows_of_entries(const GeneratorConfig& config) { return config.device_work > 0 ? 32768 : 4096; }

inline double work_of(const Problem& p) {
  return static_cast<double>(p.batch * p.heads_q) * static_cast<double>(p.seq_q) * static_cast<double>(p.seq_k) *
         static_cast<double>(p.dim_qk + p.dim_v);
}

// The elements of K, or of V if it has more, where each entry has seq_k keys.
inline int64_t elements_of_keys(const Problem& p) {
  return p.batch * p.heads_kv * p.seq_k * std::max(p.dim_qk, p.dim_v);
}

// Draws several entries, of sizes that a case can afford. Lengths stay if the kernel limits sizes.
inline void draw_batch(const DrawContext& context, Problem& p) {
  Rng& rng = context.rng;
  const auto& domain = context.config.domain;
  const auto& taken = context.config.refused.sizes;
  const int64_t before = p.batch;
  if (p.batch < 2 && rng.percent(85)) p.batch = rng.range(2, 6);
  const double most = std::max(static_cast<double>(context.config.work), 1.0);
  const auto costs_too_much = [&] {
    return work_of(p) > most ||
           (context.config.device_work > 0 && elements_of_keys(p) > context.config.elements);
  };
  while (costs_too_much() && p.batch > 2) --p.batch;
  while (!domain && !taken && costs_too_much() && std::max(p.seq_q, p.seq_k) > 1) {
    int64_t& longer = p.seq_q > p.seq_k ? p.seq_q : p.seq_k;
    longer = (longer + 1) / 2;
  }
  if ((domain && !holds(domain->batch, p.batch)) || (taken && !holds(taken->batch, p.batch))) p.batch = before;
}

// Takes the alignment that the kernel's domain requires. It matters even if seq_q equals seq_k, because the
// lengths of single entries differ.
inline void align_within(const DrawContext& context, Problem& p) {
  if (context.config.domain && context.config.domain->align != 0) p.align = context.config.domain->align - 1;
}

}  // namespace attnfuzz
