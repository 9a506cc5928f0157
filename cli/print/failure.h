// Prints a failure for a person, always in this order: what is wrong in one sentence, the reduced case, what it
// needs, where it was found, the likely cause, the line that replays it.
#pragma once

#include <string>
#include <vector>

#include "cli/print/checked.h"

namespace attnfuzz {

struct FailureSections {
  std::vector<std::string> wrong, reduced, needs, where, likely, replay;
};

inline constexpr size_t kMostFailureLines = 25;

// Without `all` at most kMostFailureLines lines: a section that is cut short says how many lines are missing.
// `color`: for a terminal.
std::string failure_block(const FailureSections& sections, bool all, bool color);

// `where`: the origin of the case, in words.
FailureSections sections_of(const Case& c, const Verdict& verdict, const std::vector<Need>& needs,
                            const std::string& where);

// The sections of a failure that a check with this seed found. If `all`, they include the case as it was found and
// the parts that do not matter.
FailureSections sections_of(const Failure& failure, const Filed& filed, uint64_t seed, bool all);

// The text for JUnit, SARIF and annotations, which print the failure's message themselves: the reduced case
// with its likely fault, the reproducer, the replay line. `filed`: null if the failure was not filed.
std::string failure_text(const Failure& failure, const Filed* filed);

}  // namespace attnfuzz
