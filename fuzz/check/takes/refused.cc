// Draws conclusions from the refusals of a kernel, once they are known.
#include <algorithm>
#include <string_view>

#include "fuzz/check/takes/combined_refusals.h"
#include "properties/case/features/domain.h"
#include "properties/case/words.h"

namespace attnfuzz {

const Refusal* refusal_of_several(Limit limit) {
  using namespace combined_refusals;
  for (const Refusal* refusal : {&kNegativeScale, &kOtherBias, &kBiasWithMask, &kCausalWithMask, &kNotFinite}) {
    if (refusal->limit == limit) return refusal;
  }
  return nullptr;
}

Refused with_unspoken(Refused left_out, const attn_domain& asked, const Refused& by_kernel) {
  const auto says = [](const attn_sizes& s) { return s.least || s.most || s.multiple || s.count; };
  const bool lengths = says(asked.seq_q) || says(asked.seq_k), dims = says(asked.dim_qk) || says(asked.dim_v);
  const auto must_take = [&](Limit limit) {
    return (limit == Limit::kEqualLengths && lengths && !asked.equal_lengths) ||
           (limit == Limit::kNoF16 && (asked.dtypes >> ATTN_F16 & 1)) ||
           (limit == Limit::kNoBf16 && (asked.dtypes >> ATTN_BF16 & 1));
  };
  for (const Refusal* refusal : by_kernel.those) {
    if (!must_take(refusal->limit) && std::ranges::find(left_out.those, refusal) == left_out.those.end())
      left_out.those.push_back(refusal);
  }
  if (!by_kernel.sizes) return left_out;
  attn_domain sizes = *by_kernel.sizes;
  for (const auto size : {&attn_domain::batch, &attn_domain::heads_q, &attn_domain::group, &attn_domain::seq_q,
                          &attn_domain::seq_k, &attn_domain::dim_qk, &attn_domain::dim_v}) {
    if (says(asked.*size)) sizes.*size = {};
  }
  if (lengths) sizes.equal_lengths = 0;
  if (dims) sizes.equal_dims = 0;
  if (says_sizes(sizes)) left_out.sizes = sizes;
  return left_out;
}

bool speaks_of(const Property& property, const Refused& refused) {
  return std::ranges::none_of(refused.those, [&](const Refusal* refusal) {
    return std::ranges::any_of(
        refusal->properties, [&](const char* name) { return name && std::string_view(name) == property.name; });
  });
}

std::string in_words(const Refused& refused) {
  // A refusal that several tensors share is printed once.
  std::vector<std::string> words;
  std::vector<std::pair<std::string_view, std::string>> of_tensors;
  for (const Refusal* refusal : refused.those) {
    const std::string_view name = refusal->name;
    const size_t colon = name.find(": ");
    if (colon == name.npos) {
      words.emplace_back(name);
      continue;
    }
    const std::string_view what = name.substr(colon + 2);
    const auto at = std::ranges::find(of_tensors, what, &std::pair<std::string_view, std::string>::first);
    if (at == of_tensors.end()) {
      of_tensors.emplace_back(what, name.substr(0, colon));
    } else {
      at->second += cat(" ", name.substr(0, colon));
    }
  }
  for (const auto& [what, tensors] : of_tensors) words.push_back(cat(what, " (", tensors, ")"));
  if (refused.sizes) {
    for (std::string& of : in_words(*refused.sizes)) {
      if (std::ranges::find(words, of) == words.end()) words.push_back(std::move(of));
    }
  }
  return join(words, ", ");
}

}  // namespace attnfuzz
