// Shows a case and its result to a person at a terminal.
//
// There are four parts: the case in words; the mask with the plan's tile borders; the state of each (query
// tile, KV tile); and, given a result, error/bound over rows and columns of the failing head, for the main output
// and each other output that is wrong. All of it is computed from the case; no kernel runs.
//
//   puts(explain(c, verdict.plan, nullptr, nullptr, {.color = isatty(1) != 0}).c_str());
#pragma once

#include <string>

#include "kernels/attention.h"
#include "properties/case/case.h"
#include "properties/operations/outputs.h"
#include "reference/oracle.h"

namespace attnfuzz {

struct Reproducer;

struct ExplainOptions {
  bool color = false;
  int width = 100;                         // of the terminal, in characters
  bool ascii = false;                      // no block characters
  const Reproducer* reproducer = nullptr;  // its facts are printed first
};

// `reference` and `got` may be null; the pictures of errors need both. The case must be legal.
std::string explain(const Case& c, const attn_plan& plan, const Reference* reference, const Outputs* got,
                    ExplainOptions options = {});

}  // namespace attnfuzz
