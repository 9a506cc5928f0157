// The passes of the reducer over a failing case.
//
// Every pass proposes candidates to a Search and decides nothing else. The order of passes affects the
// speed only, because shrink() repeats them until none helps. A new pass is one function here and one line
// in shrink().
#pragma once

#include <span>

#include "properties/reduce/search.h"

namespace attnfuzz {

// A fill without a seed.
constexpr Fill fill_of(FillKind kind, int exponent = 0) { return {.kind = kind, .exponent = exponent}; }

// Numbers from here on are neither lowered in pairs nor step by step together with other values. Such a
// number stands at a limit, and each try of a slightly smaller one is slow.
inline constexpr int64_t kMany = 1 << 14;
// The values below `now` that are worth trying first: the borders of tiles, of grids and of 16 bits.
Number number_of(const ShrinkInteger& integer, const Case& c, const Borders& borders);

// The fills of Q, K and V.
struct Data {
  Fill q, k, v;
};
// Fills that show different bugs, the simplest first; all without a seed.
std::span<const Data> regimes();
Case with_data(Case c, const Data& data);

void turn_off_toggles(Search& s);  // features off, one by one
void shrink_calls(Search& s);      // single calls, then fewer
void shrink_batch(Search& s);      // one entry, with its own lengths and planted values
void shrink_heads(Search& s);      // the ratio kept, then broken
void shrink_lengths(Search& s);    // together, by the same amount, apart
void shrink_dims(Search& s);       // together, apart
void shrink_numbers(Search& s);    // every integer by itself
void shrink_patterns(Search& s);   // masks, biases and the sides of a merge to simpler kinds
void shrink_planted(Search& s);    // single values
void shrink_layouts(Search& s);    // field by field
void shrink_fills(Search& s);      // kinds and exponents of Q, K and V
void shrink_seeds(Search& s);      // 0 first
// Tries 0, then a few other seeds: a seed that is needed can mostly be replaced by any other.
inline constexpr uint64_t kSeedsTried = 16;
void shrink_seed(Search& s, uint64_t now, const std::function<void(Case& c, uint64_t seed)>& set);
// Slower passes, which change two things at once.
void shrink_pairs(Search& s);             // two features, two numbers, or one number for another
void shrink_with_richer_data(Search& s);  // fewer features and smaller sizes, in exchange for another fill
void shrink_data_together(Search& s);     // the kinds of all three fills at once
void shrink_planted_afresh(Search& s);    // two planted values in place of all of them
// Kinds, exponents and seeds of the other fills: those of dO, and of the inputs of a merge, a compression or a
// combination.
void shrink_other_fills(Search& s);

// Runs all passes until none helps or the time is up.
void shrink(Search& s);

}  // namespace attnfuzz
