// Files the failures of a check: each is judged again, reduced and written to a file. Files that were written
// before are tried first.
#pragma once

#include <functional>
#include <string>

#include "cli/print/checked.h"
#include "fuzz/check/failure/vote.h"

namespace attnfuzz {

struct Filing {
  const CheckOptions& check;
  std::string folder;  // of reproducers; made when there is a failure
  double reduce_seconds;
  bool untrusted;                                   // looks for the exploit behind a failure
  std::function<bool()> stop;                       // asked while a failure is reduced
  OpenBuild open_build;                             // opens the kernel in another build
  std::function<void(const std::string&)> at_work;  // called with a text before each step that may take long
};

// Judges the failure again in a fresh worker, reduces it, and writes its reproducer at once; each better one
// replaces it, and no file that was there before. If the case passes by itself, it is run after the cases that
// came before it, and each case that it needs gets a file. A failure that was found before is left as it is.
// Throws UserError if a file cannot be written.
Filed file_failure(Failure& found, Target& target, const Calibration& calibration, const Filing& filing);

// Writes the statistical warnings of a check that has ended: the first case of each kind of warning
// (StatisticalWarning::sign).
void file_warnings(Target& target, const Filing& filing, Checked& checked);

// Judges the reproducers of this kernel, back end and build that lie in the folder. Those that still fail are
// the first of `checked`'s failures. If a file cannot be read, the check does not pass, because the file may
// hold a failure. Returns a line for -v, or nothing.
std::string try_found_before(Target& target, const Calibration& calibration, const Filing& filing,
                             Checked& checked);

// Changes the case so that it lies inside --domain and --finite.
void keep_inside(const CheckOptions& check, Case& c);

}  // namespace attnfuzz
