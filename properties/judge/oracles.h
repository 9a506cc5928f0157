// Which oracle says what a run must give.
//
// The CPU's (reference/oracle.h) is always there, and has the last word. A faster one may be put before
// it (Target::oracles, reference/fast_oracle.h). Then
//   - what it passes, passes;
//   - what fails by it is evaluated again by the CPU's, and that verdict counts;
//   - of what it evaluates the first result, and then one in a hundred, drawn by a seed, or as many as is
//     asked, is evaluated by both, whatever comes of it;
//   - what is not a problem for it is evaluated by the CPU's, and counted with the reason;
//   - wherever both were asked and do not say the same (reference/agreement.h), that is a failure of its
//     own, Kind::kOracle: of an oracle, not of the kernel.
// Partials and merges (a kernel's stages) are the CPU's.
//
//   target->oracles = std::make_shared<Oracles>(std::move(fast));
//   judge(...);  puts(words(target->oracles->use()).c_str());
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "reference/fast_oracle.h"

namespace attnfuzz {

// How often each was asked.
struct OracleUse {
  std::string device;                    // of the fast one; empty: there was none
  uint64_t fast = 0;                     // results evaluated by it
  uint64_t both = 0;                     // of them, by the CPU's too
  std::map<std::string, uint64_t> left;  // by the CPU's alone, by reason
  void merge(const OracleUse& other);
  uint64_t left_in_all() const;
};

class Oracles {
 public:
  // `both_in`: one in so many is evaluated by both; 1: all.
  explicit Oracles(std::unique_ptr<FastOracle> fast, uint64_t seed = 1, uint64_t both_in = 100);

  // Nothing: to be asked of the CPU's.
  std::optional<Reference> evaluate(const attn_problem& problem, const attn_tensors& host,
                                    const attn_plan& plan, const Calibration& calibration, RowSample sample);
  // Whether what evaluate() said last is to be held to the CPU's, though nothing failed.
  bool drawn() const { return drawn_; }
  // Takes note that both were asked.
  void count_both() { ++use_.both; }

  const OracleUse& use() const { return use_; }

 private:
  std::unique_ptr<FastOracle> fast_;
  uint64_t random_;
  const uint64_t both_in_;
  bool drawn_ = false;
  OracleUse use_;
};

}  // namespace attnfuzz
