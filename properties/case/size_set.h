// The values that one size of a problem may have: attn_sizes of the contract.
//
//   attn_sizes keys = {.least = 1000};
//   nearest(keys, 37);              // 1000
//   drawn(keys, rng, 65536);        // 1000..65536, each octave equally likely
//   intersection(keys, {.most = 4096, .multiple = 64});   // multiples of 64, 1000 to 4096
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/attention.h"
#include "properties/case/rng.h"

namespace attnfuzz {

inline int64_t rounded_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

bool holds(const attn_sizes& sizes, int64_t n);

// The value of `sizes` that is nearest to n.
int64_t nearest(const attn_sizes& sizes, int64_t n);

// Draws a value of `sizes`. The values of a list are equally likely. A range is drawn log-uniformly, and
// its ends get an extra share. A range without an upper end reaches 32 times its least value, or `reach` if
// that is less. 0 is drawn only if there is no other value.
int64_t drawn(const attn_sizes& sizes, Rng& rng, int64_t reach);

// The values that both sets have; nothing if there are none.
std::optional<attn_sizes> intersection(const attn_sizes& a, const attn_sizes& b);

// "32, 64", "multiples of 8 from 64 to 512", "any".
std::string in_words(const attn_sizes& sizes);

}  // namespace attnfuzz
