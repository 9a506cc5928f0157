// Finds by asking which sizes a kernel takes: head dimensions, lengths, heads, batches and query heads a KV
// head, and which of them must be equal.
//
//   const auto sizes = sizes_taken(bases, [&](const Case& c) { return takes(target, c); });
//
// A size counts as taken if every base problem is taken with it. Asked are small numbers, powers
// of two and their neighbours, so what is found is the simplest that agrees with those: a range, a
// multiple, both, or a list. A kernel that takes five odd sizes of a kind is asked no more of it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "properties/case/case.h"

namespace attnfuzz {

// Taken, the plainest first; at least one.
using Bases = std::vector<Case>;

// True if the kernel takes a problem; nothing: it could not be asked.
using TakesCase = std::function<std::optional<bool>(const Case&)>;

// Its sizes and equal_lengths, equal_dims alone; nothing if it takes all that was asked. `ignores_holes`: see
// fill_narrow_holes().
std::optional<attn_domain> sizes_taken(const Bases& bases, const TakesCase& takes, bool ignores_holes = false);

// Adds to `taken` the sizes that lie inside the range and multiple of those taken, if they are fewer than one
// in five of those asked there. Nobody declares such a hole: a kernel that ends in it has a bug. Both
// ascending, and not empty.
void fill_narrow_holes(const std::vector<int64_t>& asked, std::vector<int64_t>& taken);

// The refused sizes in words: "head dimensions above 64", "lengths other than multiples of 8 up to 128".
std::vector<std::string> in_words(const attn_domain& sizes);

// The simplest that has of `asked` just what was `taken`, both ascending and not empty; a few are a list.
attn_sizes simplest_sizes(const std::vector<int64_t>& asked, const std::vector<int64_t>& taken);

}  // namespace attnfuzz
