// A finding's case as a picture: queries downwards, keys to the right, what may be
// seen, the tile borders of the plan, and which rows went wrong by how much.
//
//   CasePicture picture = draw_case(c, plan, &reference, &o, &lse);   // numbers alone
//   html += svg(picture);
#pragma once

#include <string>
#include <vector>

#include "properties/case/case.h"
#include "properties/explain/picture.h"
#include "reference/oracle.h"

namespace attnfuzz::report {

struct CasePicture {
  int64_t b = 0, h = 0;           // the first (batch, head) with an error; else (0, 0)
  Ruler rows, columns;            // of queries and keys
  std::vector<double> seen;       // rows x columns: share of pairs that may be seen
  std::vector<double> error;      // of each row of cells the largest error/bound; empty: not known
  std::string why;                // there is no error: why
  std::vector<std::string> said;  // what else is known of the error, line by line
};

// `reference` and `o` may be null, and `lse` empty. `c` is legal.
CasePicture draw_case(const Case& c, const attn_plan& plan, const Reference* reference,
                      const std::vector<float>* o, const std::vector<float>* lse);

// A <figure>.
std::string svg(const CasePicture& picture);

}  // namespace attnfuzz::report
