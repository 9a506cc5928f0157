// Tools that relations share: rows, choices, and how two runs should agree.
//
// A relation consists of two functions. adapt() changes a drawn case as little as possible; applied twice,
// it changes nothing the second time. check() runs the base case and its variants, each of which
// Trial::run() compares with the oracle, and then compares the runs:
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
#include "properties/judge/same_work.h"
#include "properties/judge/trial.h"

namespace attnfuzz::relations {

// adapt() of a property that applies to every case.
bool any_case(Case& c, const KernelInfo& kernel, std::string* why);

// A copy of the base case, to be changed: one call on a clean workspace.
Case variant_of(const Case& base);

// At most `most` row numbers without repeats: the first, the last, those at the plan's query tile border,
// and others that depend only on the case.
std::vector<int64_t> some_rows(const Case& c, int64_t tile_q, int64_t most);

// A number that depends only on the case's data and on `salt`.
uint64_t choice(const Case& c, uint64_t salt);

// The rows must have equal bits if their plans promise them (Trial::promise_bits); otherwise they must agree within
// both bounds.
bool agree(Trial& trial, const Run& a, int64_t row_a, const Run& b, int64_t row_b, std::string_view what);
bool all_agree(Trial& trial, const Run& a, const Run& b, std::string_view what);

// True if powers of two pass through the sums of a call exactly: no partial result and no sum of a merge is
// rounded to fp16, where small numbers lose bits that larger ones keep.
bool scales_through_sums(const Problem& p, const attn_plan& plan);

// O of `twice` must be two times O of `base`: bit for bit if the plans promise it and scales_through_sums() holds, else
// within both bounds.
void doubles(Trial& trial, const Run& base, const Run& twice, std::string_view what);

// Compares one element of an output with the number that the relation expects, within the oracle's bound plus
// `slack`, the error of the relation's own arithmetic. Rows without a bound pass.
bool output_is(Trial& trial, const Run& run, TensorId tensor, int64_t row, int64_t column, double expected,
               double slack, std::string_view what);

// Row at.i of head (at.b, at.h) of an input with a fill, planted values included.
std::vector<double> input_row(const Case& c, TensorId tensor, const Row& at, int64_t columns);

// Compares a row of an output with row from.i of head (from.b, from.h) of an input, which must arrive
// unchanged. Values that are not finite are not compared.
bool row_arrives(Trial& trial, const Run& run, TensorId output, int64_t row, TensorId tensor, const Row& from,
                 std::string_view what);

// Remove the planted values of one tensor, or all that are not finite.
void drop_planted(Case& c, TensorId tensor);
void drop_non_finite(Case& c);

// Changes the contents of all inputs and caches but not their sizes: fills, sinks, slopes, bias, mask, lists of
// blocks, copied pages, the order of packed entries, and, if there are pages, their order and the key lengths.
// Without pages the key lengths stay.
void change_contents(Case& c);

// Removes the sinks: weights add up to 1 without them.
void drop_sinks(Case& c);

// Removes the slopes: with them, scores of equal products differ.
void drop_slopes(Case& c);

// A visible (b,h,i,j), if a bounded search finds one.
struct Pair {
  int64_t b, h, i, j;
};
std::optional<Pair> visible_pair(const Case& c, uint64_t salt);

// Lowers the sizes until the problem has at most `most` pairs of a query and a key, or has one query for each
// head.
void keep_few_pairs(Case& c, int64_t most);

// Removes everything that hides keys.
void show_everything(Problem& p);

// True if raising a fill's exponent by k multiplies every value by exactly 2^k. Checks all values; false if
// there are too many.
bool scales_exactly(const Case& c, TensorId tensor, int k);

// An upper bound of max x_j - min x_j over any row, in nats; infinite if unknown.
double score_range(const Case& c);

}  // namespace attnfuzz::relations
