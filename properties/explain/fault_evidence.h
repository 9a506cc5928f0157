// What a failure shows, in the terms in which attention bugs are told apart: what
// it needs, whether a query sees no key of a tile, whether lengths of zero, large
// values or far offsets are in it. fault_class.cc votes on it.
//
//   const FaultEvidence evidence(c, verdict, needs, "plain");
//   if (evidence.tile_unseen && evidence.weight(c.problem.causal, {"causal"}) > 0) ...
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "properties/case/case.h"
#include "properties/judge/verdict.h"

namespace attnfuzz {

class FaultEvidence {
 public:
  // All must outlive this.
  FaultEvidence(const Case& c, const Verdict& verdict, std::span<const std::string> needs,
                std::string_view lane);

  const std::span<const std::string> needs;  // Reduction::needs; empty if nobody asked
  const std::string_view lane;
  int64_t tile_q = 64, tile_k = 64;  // of the plan, if there is one
  bool tile_unseen = false;          // in the failing head, some row sees no key of some tile
  bool dead_row = false;             // the failing row, or the first, sees no key

  // How much a feature counts: 1 if the failure needs it by one of these names, half
  // if it is present and nobody asked, 0 if it was found not to matter.
  double weight(bool present, std::initializer_list<std::string_view> names) const;
  bool needed(std::string_view what) const;  // some need begins so
  // The failure hangs on a length of 0. The smallest case has one also where lengths
  // do not matter.
  bool zero_matters() const;
  // On scores that differ from key to key.
  bool scores_matter() const;
  bool large_values() const;      // or tiny ones
  double largest_offset() const;  // in elements

 private:
  void look_at_tiles();
  int64_t shortest() const;

  const Case& c_;
  const Problem& p_;
  const Verdict& v_;
};

// Of "needs seq_k >= 65": "seq_k >= 65", and 65; 0 if it has no number.
std::string_view subject(const std::string& need);
int64_t number_in(const std::string& need);
bool mentions(std::string_view text, std::string_view what);

}  // namespace attnfuzz
