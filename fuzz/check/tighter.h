// Tells whether a kernel that does not declare its arithmetic behaves like fp32, and how many cases
// stay unjudged because of the missing declaration.
//
// A part that a plan leaves open counts as the loosest class. Loose bounds leave cases that cannot be judged,
// so that a right kernel may end as "too little judged". Some cases are drawn and judged again by the classes
// that Takes::in_fp32 stands for: products and sums by FFMA, __expf, scores scaled in fp32, P not rounded. If
// the kernel passes all of them, its errors are consistent with fp32 arithmetic, and it can say so. Cases that
// were not judged are also judged with each class alone, which shows the assumption that costs most.
//
//   const Tighter t = try_fp32(target, config, calibration);
//   std::printf("  %s\n", words(t).c_str());
//
// It proves nothing: a kernel with fewer bits may be accurate in these cases. The user decides.
#pragma once

#include <string>
#include <vector>

#include "properties/case/features/generator_config.h"
#include "properties/judge/target/target.h"
#include "reference/model/assumption.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

struct Tighter {
  int cases = 0;            // cases in which the loose bound found no failure
  int uninformative = 0;    // of `cases`: not judged by the loose bound
  int still = 0;            // of `uninformative`: not judged by the fp32 bound either
  int compared = 0;         // cases that were compared by the fp32 bound
  int outside = 0;          // of `compared`: outside of the bound
  double worst = 0;         // the largest error/bound of the others
  std::string costs;        // the assumption that leaves most cases unjudged; empty if none does
  int without = 0;          // cases that stay unjudged without that assumption
  bool consistent() const;  // enough was compared, and none is outside
};

// True if a plan leaves open a part that the fp32 classes would declare.
bool leaves_fp32_open(const std::vector<Assumption>& assumptions);

// Draws `cases` inside `config`, as many as fit into `seconds`.
Tighter try_fp32(Target& target, const GeneratorConfig& config, const Calibration& calibration, int cases = 100,
                 double seconds = 5);

// "consistent with fp32 accumulation: 96 cases are within ...", or "not consistent with fp32 arithmetic: ..."
std::string words(const Tighter& tighter);

}  // namespace attnfuzz
