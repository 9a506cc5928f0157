// Chooses the oracle that says what a run must give.
//
// The CPU's oracle (reference/oracle.h) always exists and has the last word. A faster one may be asked
// first (Target::oracles, reference/fast_oracle.h). Then
//   - what it passes, passes;
//   - what it fails is evaluated again by the CPU's oracle, and that verdict counts;
//   - the first result, and then one in `both_in` at random, is evaluated by both in any case;
//   - a problem that it does not handle goes to the CPU's oracle, and is counted with the reason;
//   - if both were asked and disagree (reference/agreement.h), that is a failure of an oracle, not of the
//     kernel: Kind::kOracle.
// Partials and merges (a kernel's stages) are left to the CPU's oracle.
//
//   target->oracles = std::make_shared<Oracles>(std::move(fast));
//   judge(...);  puts(words(target->oracles->use()).c_str());
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/random.h"
#include "reference/fast_oracle.h"

namespace attnfuzz {

// Counts the results that each oracle evaluated.
struct OracleUse {
  std::string device;                    // of the fast oracle; empty: there is none
  uint64_t fast = 0;                     // results evaluated by the fast oracle
  uint64_t both = 0;                     // of these, results evaluated by the CPU's oracle too
  std::map<std::string, uint64_t> left;  // results evaluated only by the CPU's oracle, by reason
  void merge(const OracleUse& other);
  uint64_t left_in_all() const;
};

class Oracles {
 public:
  // `both_in`: one result in this many is evaluated by both; 1: all.
  explicit Oracles(std::unique_ptr<FastOracle> fast, uint64_t seed = 1, uint64_t both_in = 100);

  // The fast oracle's result; nothing if the CPU's must be asked.
  std::optional<Reference> evaluate(const attn_problem& problem, const attn_tensors& host,
                                    const attn_plan& plan, const Calibration& calibration, RowSample sample);
  // True if the last result of evaluate() is to be compared with the CPU's, even if nothing failed.
  bool drawn() const { return drawn_; }
  // Records that both were asked.
  void count_both() { ++use_.both; }

  const OracleUse& use() const { return use_; }

 private:
  std::unique_ptr<FastOracle> fast_;
  SplitMix64 random_;
  const uint64_t both_in_;
  bool drawn_ = false;
  OracleUse use_;
};

}  // namespace attnfuzz
