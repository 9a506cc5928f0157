// Draws cases: RapidCheck generators aimed at where attention kernels break.
//
// The generator knows the tile sizes of the kernel it draws for and lands on
// their borders on purpose; triggers are conjunctions, so each feature is drawn often
// enough that pairs and triples meet. Case number `index` of a run with `seed` depends on
// nothing else: any part of a stream can be drawn anywhere.
#pragma once

#include <rapidcheck.h>

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "properties/case/case.h"
#include "properties/case/generator_config.h"

namespace attnfuzz {

// For RapidCheck's properties. It does not shrink: reduce.h does that better.
rc::Gen<Case> arbitrary_case(const GeneratorConfig& config);
// How RapidCheck prints a case: as JSON that a file can hold.
void showValue(const Case& c, std::ostream& os);

// Case `index` of the stream `seed`: always legal (illegal(c) says nothing).
Case draw(const GeneratorConfig& config, uint64_t seed, uint64_t index);

// Features of a case, computed from the case and its plan's tiles alone: what a
// run classifies its draws by. Names as printed: "kv tiles >= 3", "gqa",
// "dead rows", "causal", "window", "bias", "mask", "softcap", "zero length", ...
std::vector<std::string> features(const Case& c, int64_t tile_q, int64_t tile_k);
std::vector<std::string> feature_names();  // all that there are

// Counts over a run, and the floors that the draw must keep
// (three KV tiles, GQA, dead rows; at most so many rejected and uninformative).
struct Classification {
  uint64_t cases = 0, rejected = 0, uninformative = 0;
  std::map<std::string, uint64_t> counts;
  // Which share of a floor is due in the kernel's domain, from 0 to 1, by the feature's name:
  // reach_in_domain(). What is not named is due in whole.
  std::map<std::string, double> reach = {};
  void add(const Case& c, int64_t tile_q, int64_t tile_k);
  void merge(const Classification& other);
  // Floors broken, in words; empty if all are kept. Needs >= 500 cases to speak. What a
  // kernel refuses is drawn but rarely: a floor of that is not asked for.
  // `deviations`: how many standard deviations of such a sample a share may lie on the
  // wrong side of its floor; kByChance where a verdict hangs on it.
  static constexpr double kByChance = 3;
  std::vector<std::string> broken_floors(const Refused& refused = {}, double deviations = 0) const;
  // Floors that are not asked for, or not in whole, and why: the domain cannot reach them, or the kernel
  // refuses what they are about.
  std::vector<std::string> eased_floors(const Refused& refused = {}) const;
  std::string table() const;
};

// What a domain allows of each floor: unrestricted cases are drawn and moved into the domain, before anything
// is given up for its cost; the share that still has the feature is divided by the share that had it. 0: none
// does.
std::map<std::string, double> reach_in_domain(const GeneratorConfig& config);

}  // namespace attnfuzz
