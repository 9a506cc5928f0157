// Files the failures of a check: each is judged again, reduced and written to a file. Files that were written
// before are tried first.
#pragma once

#include <functional>
#include <string>

#include "cli/print/print.h"
#include "fuzz/check/vote.h"

namespace attnfuzz {

struct Filing {
  const CheckOptions& check;
  std::string folder;  // of reproducers; made when there is a failure
  double reduce_seconds;
  bool untrusted;              // the kernel's exploit is looked for
  std::function<bool()> stop;  // asked while a failure is reduced
  OpenLane open_lane;          // the kernel in another lane
};

// Judges the failure again (what is right in a fresh worker is looked for behind the cases that ran before
// it, which then have a file each), reduces it, writes its reproducer as soon as there is one and
// each better one over it, says everything about it. One that was found before is only said.
// Throws UserError if it cannot be written.
Filed file_failure(Failure& found, Target& target, const Calibration& calibration, const Filing& filing);

// Writes the first case of each sign of a warning of a check that has ended, and says how to see it again.
void file_warnings(Target& target, const Filing& filing, Checked& checked);

// Judges the reproducers of this kernel, back end and lane that lie in the folder; those that
// fail still are the first of `checked`'s failures. What cannot be read may be one of
// them: it is told, and no pass.
void try_found_before(Target& target, const Calibration& calibration, const Filing& filing, Checked& checked);

}  // namespace attnfuzz
