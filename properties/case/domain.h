// What a kernel takes, as it declares it: attn_domain.
//
// Draws, mutations and the reducer go through fit(): each size becomes the nearest that
// the domain has, and sizes that it couples move together.
#pragma once

#include <optional>
#include <string>

#include "properties/case/case.h"

namespace attnfuzz {

// The nearest value that `sizes` has.
int64_t nearest(const attn_sizes& sizes, int64_t n);

// Moves the case into the domain; what is in it already stays as it is. Lengths follow
// seq_k, dims dim_qk, where they must be equal.
void fit(const attn_domain& domain, Case& c);

// Likewise of how its tensors lie, and of nothing else: where a stride or an address is outside the tensor
// comes to lie as near as the domain has it.
void lay_within(const attn_domain& domain, Case& c);
bool lies_within(const attn_domain& domain, const Case& c);

// Why no case is inside, in words; nothing if one can be drawn: limits that are no numbers, that leave nothing
// or leave too much for one case. Whoever takes a domain from outside asks this first.
std::optional<std::string> leaves_nothing(const attn_domain& domain);

// Whether it speaks of more than formats.
bool says_sizes(const attn_domain& domain);

}  // namespace attnfuzz
