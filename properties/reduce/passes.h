// What the reducer does to a failing case, pass by pass.
//
// Every pass proposes candidates to a Search and says nothing else; the order
// of passes matters for speed only, because shrink() repeats them until none
// helps. A new pass is one function here and one line in shrink().
#pragma once

#include <span>
#include <string>
#include <vector>

#include "properties/reduce/search.h"

namespace attnfuzz {

// A fill without a seed.
constexpr Fill fill_of(FillKind kind, int exponent = 0) { return {.kind = kind, .exponent = exponent}; }

// Numbers from here on are not lowered in pairs, nor step by step with other values:
// such a number stands at a limit, and each try of one slightly smaller is slow.
inline constexpr int64_t kMany = 1 << 14;
// Values of a dial below `now` worth trying first: the borders of tiles, grids
// and 16 bits.
Number number_of(const Dial& dial, const Case& c, const Borders& borders);

// The values of Q, K and V.
struct Data {
  Fill q, k, v;
};
// Regimes that show different bugs, the simplest first; all without a seed.
std::span<const Data> regimes();
Case with_data(Case c, const Data& data);

void shrink_switches(Search& s);  // features off, one by one
void shrink_calls(Search& s);     // single calls, then fewer
void shrink_batch(Search& s);     // one entry with all that is its own
void shrink_heads(Search& s);     // the ratio kept, then broken
void shrink_lengths(Search& s);   // together, by the same amount, apart
void shrink_dims(Search& s);      // together, apart
void shrink_numbers(Search& s);   // every dial by itself
void shrink_patterns(Search& s);  // masks and biases to simpler kinds
void shrink_planted(Search& s);   // single values
void shrink_layouts(Search& s);   // field by field
void shrink_fills(Search& s);     // kinds and exponents
void shrink_seeds(Search& s);     // 0 first
// One of them: a seed that is not needed is 0; one that is needed is most often any other.
inline constexpr uint64_t kSeedsTried = 16;
void shrink_seed(Search& s, uint64_t now, const std::function<void(Case& c, uint64_t seed)>& set);
// What the quick passes cannot do: two things at once.
void shrink_pairs(Search& s);             // two switches, two dials, one dial for another
void shrink_with_richer_data(Search& s);  // fewer features and smaller sizes, paid for with another regime
void shrink_data_together(Search& s);     // the kinds of all three fills at once
void shrink_planted_afresh(Search& s);    // two planted values in place of all of them

// All of it, until nothing helps or the time is up.
void shrink(Search& s);

}  // namespace attnfuzz
