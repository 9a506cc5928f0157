// A campaign's statistical warnings (properties/judge/statistical_warning.h): neither failures nor findings.
// The first case of each target and sign is kept as a reproducer: suspicious/TARGET-SIGN.attn.json.
//
//   write_warning(dir, "fa1.cpu.plain", "bias", reproducer);   // if there is none yet
//   for (const WarningFile& s : read_warnings(dir, &problems)) puts(s.r.message.c_str());
#pragma once

#include <string>
#include <vector>

#include "properties/reduce/reproducer.h"

namespace attnfuzz {

bool has_warning(const std::string& dir, const std::string& target, const std::string& sign);
void write_warning(const std::string& dir, const std::string& target, const std::string& sign,
                   const Reproducer& r);

struct WarningFile {
  std::string file;
  Reproducer r;
};
// Sorted by name. Files that cannot be read are named in *problems.
std::vector<WarningFile> read_warnings(const std::string& dir, std::vector<std::string>* problems);

}  // namespace attnfuzz
