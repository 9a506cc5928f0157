// Statistics of judged cases. The jobs of a check and the targets of a campaign count, add up and write them in
// the same way.
//
//   Statistics s;
//   s.add(c, verdict);            // for each case that was judged, as its property adapted it
//   s.merge(of_another_job);
//   const Json j = s;             // records.h
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "fuzz/batch/batch_judge.h"
#include "fuzz/check/counts/ratio_histogram.h"
#include "properties/draw/coverage.h"
#include "properties/draw/generator.h"
#include "properties/judge/oracles.h"
#include "properties/judge/verdict.h"

namespace attnfuzz {

// The cases of one property, or of one path through the kernel.
struct PropertyStats {
  uint64_t cases = 0, passed = 0, rejected = 0, uninformative = 0, failed = 0;
  uint64_t by_bits = 0, by_bounds = 0;  // cases whose results a relation compared bit for bit, and only within bounds
  RatioHistogram ratios;  // error/bound of runs
  void add(const Verdict& verdict, bool with_ratios);
  void merge(const PropertyStats& other);
};

struct StageSeconds {
  double lay_out = 0, kernel = 0, oracle = 0, judge = 0;
  double sum() const { return lay_out + kernel + oracle + judge; }
  void merge(const StageSeconds& other);
};

struct Statistics {
  std::map<std::string, PropertyStats> properties;
  std::map<std::string, PropertyStats>
      paths;  // by path_name() of the plan (kernel_path.h), for cases that have a plan
  std::map<std::string, uint64_t> rejections;   // "PROPERTY: reason", printable -> count
  std::map<std::string, uint64_t> by_bounds;    // "PROPERTY: why not bit for bit" -> count
  uint64_t refused = 0;  // cases that the kernel refused, even if others were judged in their place
  std::map<std::string, uint64_t> build_kinds;  // cases run in another build than the check's
  std::map<std::string, uint64_t>
      warning_counts;  // sign (properties/judge/statistical_warning.h) -> cases that did not fail
  Classification features;
  uint64_t rows = 0, dead_rows = 0, uninformative_rows = 0, unconstrained_rows = 0;
  StageSeconds stages;
  OracleUse oracle;
  BatchUse batch;

  // Counts a case. The ratios of its runs count only if `ratios` is true.
  void add(const Case& c, const Verdict& verdict, bool ratios = true);
  void merge(const Statistics& other);
  uint64_t cases() const;
};

// Adds the classes of the table of axes that a case met with the tiles that it ran with. A refused case meets
// none.
void add_met(Coverage& coverage, const Case& c, const Verdict& verdict);

}  // namespace attnfuzz
