// Compares a probe's intermediates with double precision, and finds the first wrong one.
//
// A kernel records its own units, so they are recognised: scores may be plain products (with the scale's
// sign), scores, or scores times log2 e. The unit that fits most numbers is taken and named. The tolerance
// admits fp32 in any order of summation, but no mistake. This check judges nothing; the verdict on O and
// LSE is independent of it.
//
//   const CheckedProbe checked = check_probe(c, plan, read_probe(values, used));
//   if (checked.first_wrong) puts(checked.first_wrong->words.c_str());
//     -> "P of tile 1 at (b=0,h=0,q=0), key 64: nan, expected 0"
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "properties/case/case.h"
#include "properties/explain/probe_tiles.h"

namespace attnfuzz {

// The expectation for one number. If it is not known, nothing is checked. An infinite tolerance admits
// every number, but not NaN.
struct ExpectedValue {
  double value = 0, tolerance = 0;
  bool known = false;
  bool wrong = false;  // the recorded number is further off, or NaN
};

struct CheckedMatrix {
  int64_t columns = 0;
  std::vector<ExpectedValue> values;  // in the order of ProbedMatrix
  const ExpectedValue& at(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * columns + column)];
  }
};

struct CheckedTile {
  CheckedMatrix s, p, o;
  std::array<ExpectedValue, kProbedRows> row_max, scale, p_sum;
  std::array<double, kProbedRows> p_sum_got = {};  // sums of the recorded P
};

struct WrongIntermediate {
  attn_probe_tag tag = ATTN_PROBE_S;
  size_t index = 0;                       // of the tile in ProbedWarp::tiles
  int64_t tile = 0, row = 0, column = 0;  // column: of the tile; for O: of V
  double got = 0, expected = 0;
  std::string words;
};

struct CheckedProbe {
  std::string score_unit = {},
              max_unit = {};            // "q.k, not yet scaled"; empty if nothing distinguishes the units
  std::vector<CheckedTile> tiles = {};  // as ProbedWarp::tiles; empty if the rows are not known
  std::optional<WrongIntermediate> first_wrong = {};
  std::vector<std::string> notes = {};
};

const char* to_string(attn_probe_tag tag);

CheckedProbe check_probe(const Case& c, const attn_plan& plan, const ProbedWarp& warp);

}  // namespace attnfuzz
