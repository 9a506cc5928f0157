// What relations share: rows, choices, and how two runs should agree.
//
// A relation is written as two functions. adapt() changes a drawn case as
// little as can be, and nothing if applied again. check() runs the base and its
// variants, each of which is held to the oracle by Trial::run(), and then
// compares them:
//
//   const Run* base = trial.run(trial.base());
//   if (!base) return;
//   Case other = variant_of(trial.base());
//   other.problem.window_left = 1000;
//   if (const Run* run = trial.run(other, "wide window"))
//     all_agree(trial, *base, *run, "no window == wide window");
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "properties/data/recipe.h"
#include "properties/judge/property.h"
#include "properties/judge/trial.h"

namespace attnfuzz::relations {

// adapt() of a property that speaks of every case.
bool any_case(Case& c, const KernelInfo& kernel, std::string* why);

// The base once more, to be changed: one call on a clean workspace.
Case variant_of(const Case& base);

// At most `most` row numbers, without repeats: the first, the last, those at
// the plan's query tile border, and others that depend on the case alone.
std::vector<int64_t> some_rows(const Case& c, int64_t tile_q, int64_t most);

// A number that depends on the case's data and `salt` alone.
uint64_t choice(const Case& c, uint64_t salt);

// Whether two plans promise the same arithmetic for one row: same path, tiles,
// splits and classes, and both deterministic. Then equal rows have equal bits.
bool same_work(const attn_plan& a, const attn_plan& b);

// Bit-identical where the work is the same, else within both bounds.
bool agree(Trial& trial, const Run& a, int64_t row_a, const Run& b, int64_t row_b, std::string_view what);
bool all_agree(Trial& trial, const Run& a, const Run& b, std::string_view what);

// One element of an output against a number the relation knows: within the oracle's
// bound of it. Rows that are not bounded pass.
// `slack` is what the relation's own arithmetic may add to it.
bool output_is(Trial& trial, const Run& run, TensorId tensor, int64_t row, int64_t column, double expected,
               double slack, std::string_view what);

// Removes planted values of one tensor; or all that are not finite.
void drop_planted(Case& c, TensorId tensor);
void drop_non_finite(Case& c);

// A visible (b,h,i,j), if there is one within reach of a bounded search.
struct Pair {
  int64_t b, h, i, j;
};
std::optional<Pair> visible_pair(const Case& c, uint64_t salt);

// Gives up layouts that changed sizes leave no room for: spreads first, then all.
void fit(Case& c);

// Removes whatever keeps keys from being seen.
void show_everything(Problem& p);

// Whether every value of a fill is exactly 2^k times itself once its exponent is
// raised by k. Looks at all of them, up to a limit beyond which it says no.
bool scales_exactly(const Case& c, TensorId tensor, int k);

// Upper bound of max x_j - min x_j over any row, in nats; infinite if unknown.
double score_range(const Case& c);

}  // namespace attnfuzz::relations
