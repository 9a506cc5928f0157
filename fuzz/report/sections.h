// The parts of the page, each a <section>.
#pragma once

#include <string>

#include "fuzz/report/report.h"
#include "properties/case/words.h"

namespace attnfuzz::report {

std::string findings_section(const Report& report);
std::string time_section(const Report& report);
std::string lengths_section(const Report& report);
std::string audit_section(const Report& report);
std::string machine_section(const Report& report);

// Whether a target is a planted bug.
bool is_canary(const Report& report, const std::string& target);

// The newest sums of a shard.
const SeriesLine& last_of(const Shard& shard);

}  // namespace attnfuzz::report
