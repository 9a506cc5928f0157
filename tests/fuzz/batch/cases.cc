#include "tests/fuzz/batch/cases.h"

#include <gtest/gtest.h>

#include <map>

#include "fuzz/batch/prepare.h"
#include "properties/case/codec/as_contract.h"
#include "properties/draw/generator.h"
#include "properties/operations/operation.h"
#include "tests/fuzz/batch/oracle_target.h"
#include "tests/properties/support/random_case.h"

namespace attnfuzz {

// Drawn cases that a batch takes, with few rows, because a row takes the executor some milliseconds.
std::vector<Case> cases_for_it(size_t count, int64_t most_rows) {
  std::vector<Case> cases;
  for (uint64_t seed = 1; cases.size() < count; ++seed) {
    Case c = random_case(seed);
    std::string why;
    const Problem& p = c.problem;
    if (p.batch * p.heads_q * p.seq_q > most_rows || illegal(c)) continue;
    if (batch::prepare(c, ATTN_CPU, &why)) cases.push_back(c);
  }
  return cases;
}

std::vector<Case> laid_oddly(const std::vector<Case>& cases, size_t count) {
  std::vector<Case> odd;
  for (size_t n = 0; n < count; ++n) {
    std::string why;
    Case c = laid_oddly(cases[n % cases.size()], n);
    if (!illegal(c) && batch::prepare(c, ATTN_CPU, &why)) odd.push_back(std::move(c));
  }
  EXPECT_GT(odd.size(), count / 2);
  return odd;
}

// Returns attn_problem.features: what a case has beyond a dense 16-bit call with heads of up to 256 columns.
uint64_t features_of(const Case& c) { return problem_of(c.problem).features; }

// Drawn cases with each of these features, alone and together, `each` times or more.
std::vector<Case> cases_with(uint64_t features, int each, int64_t most_rows) {
  GeneratorConfig config;
  config.work = 60'000;
  config.features = features;
  std::vector<Case> cases;
  std::map<uint64_t, int> seen;
  const auto lacking = [&] {
    for (uint64_t bit = 1; bit <= features; bit <<= 1)
      if ((features & bit) != 0 && seen[bit] < each) return true;
    return false;
  };
  for (uint64_t n = 0; n < 20'000 && lacking(); ++n) {
    Case c = draw(config, 11, n);
    const Problem& p = c.problem;
    std::string why;
    if ((features & ATTN_FEATURE_F32) != 0 && n % 3 == 0) c.problem.dtype = ATTN_F32, c.planted.clear();
    const uint64_t has = features_of(c);
    if (has == 0 || p.batch * p.heads_q * p.seq_q > most_rows || p.seq_k > 400 || illegal(c)) continue;
    bool wanted = false;
    for (uint64_t bit = 1; bit <= has; bit <<= 1) wanted |= (has & bit) != 0 && seen[bit] < each;
    if (!wanted || !batch::prepare(c, ATTN_CPU, &why)) continue;
    for (uint64_t bit = 1; bit <= has; bit <<= 1) seen[bit] += (has & bit) != 0;
    cases.push_back(std::move(c));
  }
  EXPECT_FALSE(lacking());
  return cases;
}

// Drawn merges that a batch takes.
std::vector<Case> merges(size_t count, int64_t most_rows) {
  GeneratorConfig config;
  config.work = 60'000;
  config.features = OracleTarget::kMerge;
  std::vector<Case> cases;
  for (uint64_t n = 0; cases.size() < count; ++n) {
    Case c = draw(config, 12, n);
    operation_of(ATTN_FEATURE_MERGE).shape(c, 0);
    const Problem& p = c.problem;
    std::string why;
    if (n % 3 == 0) c.problem.dtype = ATTN_F32, c.problem.features |= ATTN_FEATURE_F32, c.planted.clear();
    if (p.batch * p.heads_q * p.seq_q > most_rows || illegal(c) || !batch::prepare(c, ATTN_CPU, &why)) continue;
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace attnfuzz
