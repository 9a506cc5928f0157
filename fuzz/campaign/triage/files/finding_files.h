// A finding's own files: reproducer, issue text, the picture of its error, and the trace that it needs to
// fail, if any.
//
//   write_files(dir + "/findings", {finding, reproducer, trace, picture_of(...)}, header, target);
#pragma once

#include <optional>
#include <string>

#include "fuzz/campaign/store/archive.h"
#include "fuzz/campaign/triage/files/case_picture.h"
#include "properties/reduce/reproducer.h"

namespace attnfuzz {

struct FindingFiles {
  Finding finding;
  Reproducer reproducer;
  std::string trace;                   // lines of the journal; empty: none
  std::optional<CasePicture> picture;  // none for a failure that is not a finding
};

// Replaces each file as a whole. Throws std::system_error if a file cannot be written.
void write_files(const std::string& folder, const FindingFiles& files, const CampaignHeader& header,
                 const TargetRecord& target);

// Removes the files that exist.
void remove_files(const std::string& folder, const std::string& name);

// The picture of a finding that fails by itself; it restarts `worker`. If there is no picture, it says why.
CasePicture picture_of(const Finding& finding, const Case& minimal, Target& worker,
                       const Calibration& calibration);

}  // namespace attnfuzz
