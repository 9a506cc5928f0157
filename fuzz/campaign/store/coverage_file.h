// How much of the table of axes (properties/draw/coverage.h) the cases of a target have met,
// of all jobs and sessions of a campaign together:
//
//   coverage/TARGET.met    Coverage::bytes() and their hash, without which it is damaged, and refused; what is
//                          of another table of axes is begun anew
//   coverage/TARGET.json   MeasuredCoverage
//   coverage/TARGET.lock   held by the job that adds to them
//
// What is legal for a target takes a second or two to measure: it is done by the job that adds,
// at kFewestMeasured cases and whenever there is a quarter more.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "properties/draw/coverage.h"

namespace attnfuzz {

inline constexpr uint64_t kFewestMeasured = 10'000;

struct MeasuredCoverage {
  uint64_t cases = 0;  // that there were when it was measured
  Covered covered;
};

// Adds what a job met, and measures it for a kernel as in `config` if it is time to. A job that is
// killed before costs what it had not added. Throws std::system_error where it cannot be written,
// std::runtime_error where what is there is no file of a campaign.
void add_coverage(const std::string& dir, const std::string& target, const Coverage& met,
                  const GeneratorConfig& config);

// Of each target that was measured. Throws std::runtime_error that names what is no file of a campaign, or
// cannot be understood: a campaign begins with no such folder, and does not end well with it.
std::map<std::string, MeasuredCoverage> read_coverage(const std::string& dir);

// Adds a campaign's to another's; of two that were measured the one of more cases is kept until
// the next job measures. No link is followed. Throws std::runtime_error that names a file which cannot be read.
void merge_coverage(const std::string& from, const std::string& to);

}  // namespace attnfuzz
