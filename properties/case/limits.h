// The limits that a kernel may declare besides sizes and layouts, one row each.
//
// --domain and attnfuzz.Domain take these words (cli/options/terms.cc), a declaration prints them
// (fuzz/check/takes/declaration.cc), and a refusal of a feature names the limit that it comes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "kernels/attention.h"

namespace attnfuzz {

enum class Limit : uint8_t {
  kNone,  // no word expresses it
  kNoF16,
  kNoBf16,
  kNoGqa,
  kNoBias,
  kNoMask,
  kNoWindow,
  kNoSoftcap,
  kNoKeyLengths,
  kOwnBias,
  kNoBiasWithMask,
  kNoCausalWithMask,
  kFinite,
  kPositiveScale,
  kNoLse,
  kNoCausal,
  kOnlyCausal,
  kTopLeft,
  kBottomRight,
  kEqualLengths,
  kEqualDims,
  kUsualScale
};

struct LimitWord {
  Limit limit;
  const char* word;                                       // in --domain
  const char* python;                                     // in attnfuzz.Domain
  void (*declare)(attn_domain& d) = [](attn_domain&) {};  // sets it in an attn_domain, if that can express it
};

inline constexpr LimitWord kLimitWords[] = {
    {Limit::kNoF16, "no_f16", "dtypes=(\"bf16\",)", [](attn_domain& d) { d.dtypes |= 1u << ATTN_BF16; }},
    {Limit::kNoBf16, "no_bf16", "dtypes=(\"f16\",)", [](attn_domain& d) { d.dtypes |= 1u << ATTN_F16; }},
    {Limit::kNoGqa, "no_gqa", "gqa=False", [](attn_domain& d) { d.group.count = 1, d.group.list[0] = 1; }},
    {Limit::kNoBias, "no_bias", "bias=False"},
    {Limit::kNoMask, "no_mask", "mask=False"},
    {Limit::kNoWindow, "no_window", "window=False"},
    {Limit::kNoSoftcap, "no_softcap", "softcap=False"},
    {Limit::kNoKeyLengths, "no_key_lengths", "key_lengths=False"},
    {Limit::kOwnBias, "own_bias", "bias=\"own\""},
    {Limit::kNoBiasWithMask, "no_bias_with_mask", "bias_with_mask=False"},
    {Limit::kNoCausalWithMask, "no_causal_with_mask", "causal_with_mask=False"},
    {Limit::kFinite, "finite", "non_finite=False"},
    {Limit::kPositiveScale, "positive_scale", "scale=\"positive\""},
    {Limit::kNoLse, "no_lse", "lse=False", [](attn_domain& d) { d.lse = 1; }},
    {Limit::kNoCausal, "no_causal", "causal=False", [](attn_domain& d) { d.causal = 1; }},
    {Limit::kOnlyCausal, "only_causal", "causal=\"only\"", [](attn_domain& d) { d.causal = 2; }},
    {Limit::kTopLeft, "top_left", "align=\"top_left\"", [](attn_domain& d) { d.align = 1 + ATTN_TOP_LEFT; }},
    {Limit::kBottomRight, "bottom_right", "align=\"bottom_right\"",
     [](attn_domain& d) { d.align = 1 + ATTN_BOTTOM_RIGHT; }},
    {Limit::kEqualLengths, "equal_lengths", "equal_lengths=True", [](attn_domain& d) { d.equal_lengths = 1; }},
    {Limit::kEqualDims, "equal_dims", "equal_dims=True", [](attn_domain& d) { d.equal_dims = 1; }},
    {Limit::kUsualScale, "usual_scale", "scale=False", [](attn_domain& d) { d.usual_scale = 1; }},
};

static_assert(std::size(kLimitWords) == static_cast<size_t>(Limit::kUsualScale), "each limit has a row");

// nullptr for kNone, which has no word.
constexpr const LimitWord* word_of(Limit limit) {
  for (const LimitWord& word : kLimitWords) {
    if (word.limit == limit) return &word;
  }
  return nullptr;
}
constexpr const LimitWord* limit_named(std::string_view word) {
  for (const LimitWord& known : kLimitWords) {
    if (known.word == word) return &known;
  }
  return nullptr;
}

}  // namespace attnfuzz
