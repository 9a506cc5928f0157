// A probe's intermediates beside what double precision makes of the case: which
// of them is the first that is wrong.
//
// Units are the kernel's own, so they are recognised: scores may be plain
// products (of the scale's sign), scores, or scores times log2 e; the unit that
// fits most is taken and named. What is compared is what fp32 can be held to: a
// tolerance wide enough for any order of sums, far below any mistake. It judges
// nothing; the verdict on O and LSE stands by itself.
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

// Of one number. Not known: nothing is held against it. An infinite tolerance
// admits every number, and NaN is none.
struct ExpectedValue {
  double value = 0, tolerance = 0;
  bool known = false;
  bool wrong = false;  // what was recorded is further off, or NaN
};

struct CheckedMatrix {
  int64_t columns = 0;
  std::vector<ExpectedValue> values;  // as ProbedMatrix
  const ExpectedValue& at(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * columns + column)];
  }
};

struct CheckedTile {
  CheckedMatrix s, p, o;
  std::array<ExpectedValue, kProbedRows> row_max, scale, p_sum;
  std::array<double, kProbedRows> p_sum_got = {};  // of the recorded P
};

struct WrongIntermediate {
  attn_probe_tag tag = ATTN_PROBE_S;
  size_t index = 0;                       // of the tile in ProbedWarp::tiles
  int64_t tile = 0, row = 0, column = 0;  // column: of the tile; of O: of V
  double got = 0, expected = 0;
  std::string words;
};

struct CheckedProbe {
  std::string score_unit = {},
              max_unit = {};            // "q.k, not yet scaled"; empty if there was nothing to tell them by
  std::vector<CheckedTile> tiles = {};  // as ProbedWarp::tiles; empty if the rows are not known
  std::optional<WrongIntermediate> first_wrong = {};
  std::vector<std::string> notes = {};
};

const char* to_string(attn_probe_tag tag);

CheckedProbe check_probe(const Case& c, const attn_plan& plan, const ProbedWarp& warp);

}  // namespace attnfuzz
