// A fabricated campaign: a small folder with every kind of file and entry,
// written by the archive's own functions.
//
//   make_night(dir);                       // two kernels, three jobs, two sessions
//   make_night(dir, {.hostile = true});    // markup wherever a file may hold text
#pragma once

#include <string>

#include "fuzz/campaign/store/archive.h"

namespace attnfuzz {

struct Night {
  bool hostile = false;        // names and messages are markup
  bool green = false;          // nothing found
  bool seeded_bug = true;      // found
  std::string kernel = "fa1";  // the kernel of the findings: a name, or a library's path
  double hours = 8;
};

// `dir` must not exist. Deterministic.
void make_night(const std::string& dir, const Night& night = {});

}  // namespace attnfuzz
