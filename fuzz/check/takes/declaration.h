// Writes a description of what a kernel takes, as text to paste. The source is either the refusals that were found, or
// the kernel's own declaration.
//
//   const Declaration takes = declaration_of(ask_for_refusals(target));
//   as_c(takes);       static const attn_domain kTakes = {...};   what attn_kernel.domain points to
//   as_python(takes);  attnfuzz.Domain(dim={64, 128}, bias=False)
//   as_terms(takes);   dim=64,128 no_bias                         of --domain
//   as_takes(takes.domain, declared);   dim = one_of(64, 128)     of --takes
//
// The C form cannot name features. Which of them plan() refuses is still found out by asking. For the number of query
// heads per KV head, the terms have only the word no_gqa. layout and align_bytes say how all tensors together may lie
// in memory. No declaration can mention negative strides or offsets beyond 2^31.
#pragma once

#include <string>
#include <vector>

#include "properties/case/features/generator_config.h"

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
