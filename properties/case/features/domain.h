// The domain that a kernel declares: attn_domain.
//
// The reducer calls fit(): each size becomes the nearest one of the domain, and sizes that the domain
// couples move together. Draws and mutations call draw_within() first: a size outside is drawn anew from
// the domain, so that a domain far from usual sizes is not tested only at its border.
//
//   fit(domain, c);                  // seq_k = 37 in a domain of seq_k >= 1000 becomes 1000,
//   draw_within(domain, rng, c);     // or 1000, 1812, 7340, ...
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "properties/case/case.h"
#include "properties/case/rng.h"
#include "properties/case/size_set.h"

namespace attnfuzz {

// Moves the case into the domain. Whatever is inside already stays. If lengths must be equal they follow
// seq_k, and head dimensions follow dim_qk.
void fit(const attn_domain& domain, Case& c);
// fit() for sizes only.
void fit_sizes(const attn_domain& domain, Problem& p);

// True if the sizes, the diagonal and its alignment lie in the domain.
bool takes(const attn_domain& domain, const Problem& p);

// With equal lengths, each packed entry has as many keys as queries, so both sides are packed, or none. Keys in
// pages and appended rows are no such sides.
void entries_within(const attn_domain& domain, Problem& p);
bool has_entries_within(const attn_domain& domain, const Problem& p);

// Operation::shape() draws some fields anew. For operations that list or choose blocks these are causality and
// alignment; for scores of blocks, also the number of keys and the scale; for a compression, the number of rows.
// Choices and compressions have one number of heads, that of the drawn KV heads. shaped_within() moves these
// fields back into the domain. shaped_as() takes causality, alignment and the scale from the drawn case; a probe of a
// kernel's limits needs this. Calls of other operations stay as they are.
void shaped_within(const attn_domain& domain, Case& c);
void shaped_as(const Case& drawn, Case& c);

// Like fit(), but draws a size that is outside from the domain (size_set.h). A size that only misses a
// multiple goes to the next one. Equal lengths, and equal head dimensions, stay equal if the domain allows
// it.
void draw_within(const attn_domain& domain, Rng& rng, Case& c);
// Replaces sizes by values of the domain that the usual draw would miss: always for a list, and now and
// then for lengths of a range that begins above 1 or ends far beyond some tiles.
void draw_said(const attn_domain& domain, Rng& rng, Problem& p);
// True if lengths are so limited that the usual draw would miss most of them.
bool says_lengths(const attn_sizes& lengths);

// Moves the tensors' layouts into the domain, and nothing else. A stride or an address outside becomes the
// nearest one of the domain.
void lay_within(const attn_domain& domain, Case& c);
bool lies_within(const attn_domain& domain, const Case& c);

// Why the domain contains no case that can be drawn for a kernel with these features: its limits are no
// numbers, exclude everything, or are too large for one case. Nothing if it contains some. Code that gets a
// domain from outside calls this first.
std::optional<std::string> leaves_nothing(const attn_domain& domain, uint64_t features);

// The intersection of the domain that a kernel declares and a requested one. If it is empty for every kernel, a
// string says why: "dim_qk: 32, 64 and at least 128". Formats that are not requested by name stay as declared.
std::variant<attn_domain, std::string> narrowed(const attn_domain& declared, const attn_domain& asked);

// True if the domain limits more than formats.
bool says_sizes(const attn_domain& domain);

}  // namespace attnfuzz
