// What a kernel takes, as it declares it: attn_domain.
//
// The reducer goes through fit(): each size becomes the nearest that the domain has, and sizes that the domain
// couples move together. Draws and mutations go through draw_within() first: a size outside is drawn anew from
// the domain, so that a domain far from what is usual is not drawn at its border alone.
//
//   fit(domain, c);                  // seq_k = 37 in a domain of seq_k >= 1000 becomes 1000,
//   draw_within(domain, rng, c);    // or 1000, 1812, 7340, ...
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "properties/case/case.h"
#include "properties/case/rng.h"
#include "properties/case/size_set.h"

namespace attnfuzz {

// Moves the case into the domain; what is in it already stays as it is. Lengths follow
// seq_k, dims dim_qk, where they must be equal.
void fit(const attn_domain& domain, Case& c);
// The same of its sizes alone.
void fit_sizes(const attn_domain& domain, Problem& p);

// The same, but a size that the domain does not have is drawn from it (size_set.h); one that only misses a
// multiple goes to the next one. Lengths that were equal, and dims, stay equal where the domain allows it.
void draw_within(const attn_domain& domain, Rng& rng, Case& c);
// Draws sizes from the domain that the usual draw would miss, whatever they are now: those of a list always,
// and now and then lengths of a range that begins above 1 or ends far beyond some tiles.
void draw_said(const attn_domain& domain, Rng& rng, Problem& p);
// Whether lengths are so limited that the usual draw would miss most of them.
bool says_lengths(const attn_sizes& lengths);

// Likewise of how its tensors lie, and of nothing else: where a stride or an address is outside the tensor
// comes to lie as near as the domain has it.
void lay_within(const attn_domain& domain, Case& c);
bool lies_within(const attn_domain& domain, const Case& c);

// Why no case is inside, in words; nothing if one can be drawn: limits that are no numbers, that leave nothing
// or leave too much for one case. Whoever takes a domain from outside asks this first.
std::optional<std::string> leaves_nothing(const attn_domain& domain);

// What a kernel declares, without what was not asked for; or why nothing is left: "dim_qk: 32, 64 and at least
// 128". Formats that are not asked for by name are as declared.
std::variant<attn_domain, std::string> narrowed(const attn_domain& declared, const attn_domain& asked);

// Whether it speaks of more than formats.
bool says_sizes(const attn_domain& domain);

}  // namespace attnfuzz
