// Finds by asking which sizes a kernel takes: head dimensions, lengths, heads, batches and query heads per KV
// head, and which of them must be equal.
//
//   const auto sizes = sizes_taken(bases, [&](const Case& c) { return takes(target, c); });
//
// A size counts as taken if the kernel takes every base problem with it. Only small numbers, powers of two and
// their neighbours are tried. The result is the simplest rule that agrees with them: a range, a multiple, both,
// or a list. If a kernel takes five odd sizes of a kind, no more sizes of that kind are tried. If the lengths up to 512
// follow a range or a multiple, one larger length is tried, and the others only if it breaks the rule.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "properties/case/case.h"

namespace attnfuzz {

// Problems that the kernel takes, the plainest first; at least one.
using Bases = std::vector<Case>;

// True if the kernel takes a problem; nothing if the problem could not be tried.
using TakesCase = std::function<std::optional<bool>(const Case&)>;

// A domain in which only sizes, equal_lengths and equal_dims are set; nothing if the kernel takes all sizes
// that were tried. `ignores_holes`: see fill_narrow_holes().
std::optional<attn_domain> sizes_taken(const Bases& bases, const TakesCase& takes, bool ignores_holes = false);

// Adds to `taken` the refused sizes within the range and multiple of those taken, if they are fewer than one in
// five of the sizes tried there. Nobody declares such a hole, so a kernel that fails in it has a bug. Both
// lists are ascending and not empty.
void fill_narrow_holes(const std::vector<int64_t>& asked, std::vector<int64_t>& taken);

// The refused sizes in words: "head dimensions above 64", "lengths other than multiples of 8 up to 128".
std::vector<std::string> in_words(const attn_domain& sizes);

// The simplest rule that takes, of the sizes in `asked`, exactly those in `taken`; a few sizes become a list.
// Both are ascending and not empty.
attn_sizes simplest_sizes(const std::vector<int64_t>& asked, const std::vector<int64_t>& taken);

}  // namespace attnfuzz
