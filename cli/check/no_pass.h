// Why a check in which nothing failed is no pass, and what to declare.
#pragma once

#include <string>
#include <vector>

#include "cli/check/check_kernel.h"

namespace attnfuzz {

// Tells whether the property judged any case.
bool judged_by(const CheckResult& result, const Property& property);

// How much of what it may be asked an untrusted kernel takes: refusing is no way to pass. Of the caller's
// domain nearly all is due, otherwise at least something. Returns a line for -v.
std::string measure_taken(Target& target, const CheckOptions& options, Checked& checked);

// Fills checked.not_judged. `whole`: every property was judged by.
void collect_not_judged(const CheckArguments& arguments, const CheckOptions& options, bool whole,
                        Checked& checked);

// Of a kernel that says nothing of its arithmetic: whether it could say that it is fp32's, which assumption
// costs what was not judged, and what to write. Returns lines for -v; empty: it has said so, or is not asked.
std::string try_tighter(Target& target, const GeneratorConfig& config, const Calibration& calibration,
                        const CheckArguments& arguments, Checked& checked);

// What to declare, if the reduced case is one that the kernel does not promise to get right.
std::vector<std::string> advice_on(const Failure& failure, const Filed& filed);

}  // namespace attnfuzz
