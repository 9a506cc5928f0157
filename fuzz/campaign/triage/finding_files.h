// A finding's own files: reproducer, issue text, the picture of its error, and the trace
// that it takes to fail, if it takes one.
//
//   write_files(dir + "/findings", {finding, reproducer, trace, picture_of(...)}, header, target);
#pragma once

#include <optional>
#include <string>

#include "fuzz/campaign/store/archive.h"
#include "fuzz/campaign/triage/case_picture.h"
#include "properties/reduce/reproducer.h"

namespace attnfuzz {

struct FindingFiles {
  Finding finding;
  Reproducer reproducer;
  std::string trace;                   // lines of the journal; empty: none
  std::optional<CasePicture> picture;  // none: of what is no finding
};

// Each is replaced whole. Throws std::system_error where it cannot be written.
void write_files(const std::string& folder, const FindingFiles& files, const CampaignHeader& header,
                 const TargetRecord& target);

// What there is of these.
void remove_files(const std::string& folder, const std::string& name);

// The picture of a finding that fails by itself; `worker` begins anew for it. Whatever
// keeps it from being taken is said in it.
CasePicture picture_of(const Finding& finding, const Case& minimal, Target& worker,
                       const Calibration& calibration);

}  // namespace attnfuzz
