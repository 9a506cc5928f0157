// A finding's case as a picture: queries downwards, keys to the right, the visible pairs, the plan's tile
// borders, and the error of each row.
//
// It is data, not markup. A campaign makes it with the finding, while a worker is open, and stores it in
// findings/NAME.picture.json. A report shows it without running anything:
//
//   write_picture(path, take_picture(c, property, *worker, calibration));
//   CasePicture picture = read_picture(path);
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "properties/case/case.h"
#include "properties/explain/picture.h"
#include "properties/judge/target/target.h"
#include "properties/operations/operation.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

struct CasePicture {
  int64_t b = 0, h = 0;      // the first (batch, head) with an error; else (0, 0)
  Ruler rows, columns;       // of queries and keys
  std::vector<double> seen;  // rows x columns: share of visible pairs
  // For each row of cells, the largest error/bound of the outputs that have a row for each query of a query
  // head; empty: not known, or the failure is elsewhere, for example in dK.
  std::vector<double> error;
  std::string why;                // why `error` is empty
  std::vector<std::string> said;  // further lines about the error
};

// `reference` and `got` may be null. `c` is legal.
CasePicture draw_case(const Case& c, const attn_plan& plan, const Reference* reference, const Outputs* got);

// The picture of the case without errors of rows; `why` says why they are missing.
CasePicture picture_without_error(const Case& c, const std::string& why);

// Runs the case once more, or the variant that fails if a property has one. A hang is not run again.
CasePicture take_picture(const Case& c, const std::string& property, const std::string& kind, Target& target,
                         const Calibration& calibration);

// Shares are whole percents; an infinite error/bound is null.
Json picture_json(const CasePicture& picture);

// Throws std::runtime_error that names the file, or says what is invalid.
CasePicture read_picture(const std::string& path);
void write_picture(const std::string& path, const CasePicture& picture);

}  // namespace attnfuzz
