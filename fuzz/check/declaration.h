// Writes what a kernel takes as text to paste, from what it was found to refuse or from its declaration.
//
//   const Declaration takes = declaration_of(ask_for_refusals(target));
//   as_c(takes);       static const attn_domain kTakes = {...};   what attn_kernel.domain points to
//   as_python(takes);  attnfuzz.Domain(dim={64, 128}, bias=False)
//   as_terms(takes);   dim=64,128 no_bias                         of --domain
//   as_takes(takes.domain, declared);   dim = one_of(64, 128)     of --takes
//
// In C there is no word for a feature: what plan() refuses of those is found out as before. Of query heads a
// KV head terms have no_gqa alone. How tensors may lie is said of all of them at once, by layout and
// align_bytes: of negative strides and of offsets beyond 2^31 no declaration speaks.
#pragma once

#include <string>
#include <vector>

#include "properties/case/generator_config.h"

namespace attnfuzz {

struct Declaration {
  attn_domain domain = {};
  std::vector<const Refusal*> refused = {};  // of features
};

Declaration declaration_of(const Refused& refused);

std::string as_c(const Declaration& declaration);
std::string as_python(const Declaration& declaration);
std::string as_terms(const Declaration& declaration);

// Sizes, formats and causal as statements of --takes (kernels/cuda_source/adapter/takes.h): "dim = one_of(64,
// 128)", "seq = at_most(64)". What `declared` says already is left out.
std::vector<std::string> as_takes(const attn_domain& found, const attn_domain& declared);

}  // namespace attnfuzz
