// The coverage of the table of axes (properties/draw/coverage.h) by a target's cases, over all jobs and
// sessions of a campaign:
//
//   coverage/TARGET.met    Coverage::bytes() and their hash. A file with a wrong hash is refused; a file for
//                          another table of axes is replaced
//   coverage/TARGET.json   MeasuredCoverage
//   coverage/TARGET.lock   held by the job that adds to them
//
// To find out which classes are legal for a target takes a second or two. The job that adds coverage does this
// at kFewestMeasured cases, and again whenever the number of cases has grown by a quarter.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "properties/draw/coverage.h"

namespace attnfuzz {

inline constexpr uint64_t kFewestMeasured = 10'000;

struct MeasuredCoverage {
  uint64_t cases = 0;  // number of cases when it was measured
  Covered covered;
};

// Adds what a job met, and measures again if it is due. `config` says what is legal for the kernel.
// A job that is killed before this call loses what it met. Throws std::system_error if the file
// cannot be written, and std::runtime_error if it is damaged.
void add_coverage(const std::string& dir, const std::string& target, const Coverage& met,
                  const GeneratorConfig& config);

// The coverage of each measured target. Throws std::runtime_error that names a file that is damaged or does not
// belong to a campaign. With such a folder a campaign does not start, and a running campaign does not pass.
std::map<std::string, MeasuredCoverage> read_coverage(const std::string& dir);

// Adds one campaign's coverage to another's. Of two measurements, the one with more cases is kept until the
// next job measures. Follows no link. Throws std::runtime_error that names a file that cannot be read.
void merge_coverage(const std::string& from, const std::string& to);

}  // namespace attnfuzz
