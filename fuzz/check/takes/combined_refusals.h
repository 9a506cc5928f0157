// The refusals that belong to no single feature: of combinations, values, devices, and dense rows.
//
//   ask(kZeroScale, [](Case& c) { c.problem.scale = 0; });
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "fuzz/check/takes/memory_refusals.h"
#include "fuzz/check/takes/refusals.h"
#include "properties/case/places/planted_rank.h"

namespace attnfuzz::combined_refusals {

inline bool needs_diagonal(const Problem& p) { return hides_by_diagonal(p) || p.slopes; }

// `strip` removes from a case what is refused. The last two are as in Refusal.
constexpr Refusal combined(const char* name, void (*strip)(Case&), Limit limit = Limit::kNone,
                           const char* floor = nullptr) {
  return {name, memory_refusals::nothing, strip, {}, floor, limit};
}

inline constexpr Refusal kLse = combined("an LSE", [](Case& c) { c.want_lse = false; }, Limit::kNoLse);
inline constexpr Refusal kNotCausal = combined(
    "all that is not causal", [](Case& c) { c.problem.causal = true; }, Limit::kOnlyCausal, "causal");
inline constexpr Refusal kOtherLengths = combined(
    "seq_q other than seq_k", [](Case& c) { c.problem.seq_q = c.problem.seq_k; }, Limit::kEqualLengths, "dead rows");
inline constexpr Refusal kBottomRight = combined(
    "a diagonal of the bottom right",
    [](Case& c) {
      if (needs_diagonal(c.problem)) c.problem.align = ATTN_TOP_LEFT;
    },
    Limit::kTopLeft, "dead rows");
inline constexpr Refusal kTopLeft = combined(
    "a diagonal of the top left",
    [](Case& c) {
      if (needs_diagonal(c.problem)) c.problem.align = ATTN_BOTTOM_RIGHT;
    },
    Limit::kBottomRight);
inline constexpr Refusal kScale =
    combined("a scale other than 1/sqrt(dim_qk)", usual_scale, Limit::kUsualScale);
inline constexpr Refusal kNegativeScale = combined(
    "a scale that is not positive",
    [](Case& c) {
      if (!(c.problem.scale > 0)) c.problem.scale = c.problem.scale < 0 ? -c.problem.scale : 1;
    },
    Limit::kPositiveScale);
inline constexpr Refusal kZeroScale = combined("a scale of 0", [](Case& c) {
  if (c.problem.scale == 0) usual_scale(c);
});
inline constexpr Refusal kOtherBias = combined(
    "a bias of another format than Q's",
    [](Case& c) {
      if (c.problem.bias) c.problem.bias->dtype = c.problem.dtype;
    },
    Limit::kOwnBias);
inline constexpr Refusal kBiasWithMask = combined(
    "a bias with a mask",
    [](Case& c) {
      if (c.problem.bias) c.problem.mask.reset();
    },
    Limit::kNoBiasWithMask);
inline constexpr Refusal kCausalWithMask = combined(
    "causal with a mask or a bias",
    [](Case& c) {
      if (c.problem.bias || c.problem.mask) c.problem.causal = false;
    },
    Limit::kNoCausalWithMask);

template <int64_t kLeast>
void give_shared(Case& c) {
  const Environment usual;
  if (c.env.shared_memory_limit >= kLeast) return;
  c.env.shared_memory_limit = usual.shared_memory_limit;
  c.env.compute_capability = usual.compute_capability;
}
static_assert(kSharedOfDevices[2] == Environment{}.shared_memory_limit);
inline constexpr Refusal kLittleShared =
    combined("devices below 166912 bytes of shared memory a block", give_shared<kSharedOfDevices[1]>);
inline constexpr Refusal kLessShared =
    combined("devices below 232448 bytes of shared memory a block", give_shared<kSharedOfDevices[2]>);

inline constexpr Refusal kNotFinite = {
    "NaN and infinities",
    memory_refusals::nothing,
    [](Case& c) {
      const KnownBits known = known_bits(c.problem.dtype);
      std::erase_if(c.planted, [&](const Planted& x) {
        return x.tensor != TensorId::kBias && (x.bits & ~known.sign) >= known.infinity;
      });
    },
    {"nan_visible"},
    nullptr,
    Limit::kFinite};

// Dense rows that are no multiple of 16 bytes get a gap.
template <TensorId kTensor>
void pad_rows(Case& c) {
  constexpr int64_t kRowBytes = 16;
  TensorLayout& l = c.layout[static_cast<size_t>(kTensor)];
  const int64_t step = std::max<int64_t>(kRowBytes / element_bytes(c.problem, kTensor), 1);
  const int64_t columns = logical_size(c.problem, kTensor)[3];
  if (l.row_gap == 0 && l.step == 1 && !l.across) l.row_gap = rounded_up(columns, step) - columns;
}
struct DenseRows {
  TensorId tensor;
  Refusal refusal;
};
template <TensorId kTensor>
constexpr auto kDenseRowsName =
    memory_refusals::kName<kTensor, 0>("dense rows that are no multiple of 16 bytes");
// The refusal of dense rows for each tensor that has the problem's own format.
inline constexpr auto kDenseRows = []<size_t... n>(std::index_sequence<n...>) {
  constexpr auto& ids = kMatrixTensors;
  return std::array{DenseRows{ids[n], combined(kDenseRowsName<ids[n]>.data(), pad_rows<ids[n]>)}...};
}(std::make_index_sequence<kMatrixTensors.size()>());

}  // namespace attnfuzz::combined_refusals
