// A finding's case as a picture: queries downwards, keys to the right, what may be
// seen, the tile borders of the plan, and which rows went wrong by how much.
//
// Data, not markup. A campaign takes it when it makes the finding, with the worker
// at hand, and leaves it in findings/NAME.picture.json; a report shows it and runs
// nothing:
//
//   write_picture(path, take_picture(c, property, *worker, calibration));
//   CasePicture picture = read_picture(path);
#pragma once

#include <string>
#include <vector>

#include "properties/case/case.h"
#include "properties/explain/picture.h"
#include "properties/judge/operation.h"
#include "reference/model/calibration.h"
#include "reference/oracle.h"
#include "base/json.h"

namespace attnfuzz {

struct CasePicture {
  int64_t b = 0, h = 0;           // the first (batch, head) with an error; else (0, 0)
  Ruler rows, columns;            // of queries and keys
  std::vector<double> seen;       // rows x columns: share of pairs that may be seen
  std::vector<double> error;      // of each row of cells the largest error/bound; empty: not known
  std::string why;                // there is no error: why
  std::vector<std::string> said;  // what else is known of the error, line by line
};

// `reference` and `got` may be null. `c` is legal.
CasePicture draw_case(const Case& c, const attn_plan& plan, const Reference* reference, const Outputs* got);

// What can be drawn of the case alone; `why` says why there is no more.
CasePicture picture_without_error(const Case& c, const std::string& why);

// Runs the case once more, and the variant of it that fails where a property has one.
// A failure that is a hang is not run again.
CasePicture take_picture(const Case& c, const std::string& property, const std::string& kind, Target& target,
                         const Calibration& calibration);

// Shares as whole percents; an error/bound beyond all numbers is null.
Json picture_json(const CasePicture& picture);

// Throws std::runtime_error that names the file where it is none, or says what cannot be.
CasePicture read_picture(const std::string& path);
void write_picture(const std::string& path, const CasePicture& picture);

}  // namespace attnfuzz
