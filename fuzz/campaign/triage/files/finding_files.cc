#include "fuzz/campaign/triage/files/finding_files.h"

#include <filesystem>

#include "fuzz/campaign/triage/files/issue_text.h"
#include "base/files.h"

namespace attnfuzz {

void write_files(const std::string& folder, const FindingFiles& files, const CampaignHeader& header,
                 const TargetRecord& target) {
  const std::string path = folder + "/" + files.finding.name;
  const std::string trace = files.trace.empty() ? "" : files.finding.name + ".trace.jsonl";
  if (!trace.empty()) write_file(path + ".trace.jsonl", files.trace);
  if (files.picture) write_picture(path + ".picture.json", *files.picture);
  write_file(path + ".attn.json", encode(files.reproducer, path + ".attn.json"));
  write_file(path + ".md", issue_text(files.finding, files.reproducer, {header, target, trace}));
}

void remove_files(const std::string& folder, const std::string& name) {
  std::error_code ignored;
  for (const char* end : {".attn.json", ".calls.json", ".md", ".picture.json", ".trace.jsonl"})
    std::filesystem::remove(folder + "/" + name + end, ignored);
}

CasePicture picture_of(const Finding& finding, const Case& minimal, Target& worker,
                       const Calibration& calibration) {
  if (finding.repeats == Repeats::kAfterOthers)
    return picture_without_error(minimal, "Without the error: it fails only after other cases.");
  try {
    worker.renew();
    return take_picture(minimal, finding.property, finding.kind, worker, calibration);
  } catch (const std::exception& e) {
    return picture_without_error(minimal,
                                 std::string("Without the error, because running it failed: ") + e.what());
  }
}

}  // namespace attnfuzz
