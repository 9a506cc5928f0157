// Draws cases: RapidCheck generators aimed at the places where attention kernels break.
//
// The generator knows the kernel's tile sizes and hits their borders on purpose. A bug often needs several
// features at once, so each feature is drawn often enough that pairs and triples meet. Case `index` of the
// stream `seed` depends on nothing else: any part of a stream can be drawn anywhere.
//
//   const Case c = draw(config, 1, 17);
#pragma once

#include <rapidcheck.h>

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "properties/case/case.h"
#include "properties/case/features/generator_config.h"

namespace attnfuzz {

// For RapidCheck's own properties. It does not shrink; properties/reduce does that better.
rc::Gen<Case> arbitrary_case(const GeneratorConfig& config);
// Prints a case as JSON. RapidCheck calls it.
void showValue(const Case& c, std::ostream& os);

// Case `index` of the stream `seed`. It is always legal: illegal(c) finds nothing.
Case draw(const GeneratorConfig& config, uint64_t seed, uint64_t index);

// The features by which a run classifies its cases, computed from the case and the plan's tiles. Names are
// as printed: "kv tiles >= 3", "gqa", "dead rows", "causal", "window", "bias", "mask", "softcap", "zero
// length", ...
std::vector<std::string> features(const Case& c, int64_t tile_q, int64_t tile_k);
std::vector<std::string> feature_names();  // all names

// Counts over a run, and the floors that the draw must keep: minimum shares of cases with three KV tiles,
// with GQA and with dead rows.
struct Classification {
  uint64_t cases = 0, rejected = 0, uninformative = 0;
  std::map<std::string, uint64_t> counts;
  // The share of a floor that the kernel's domain can reach, 0 to 1, by feature name: see reach_in_domain(). A
  // name that is missing means 1.
  std::map<std::string, double> reach = {};
  void add(const Case& c, int64_t tile_q, int64_t tile_k);
  void merge(const Classification& other);
  // The broken floors, in words; empty if all are kept. It needs at least 500 cases. Floors of features that
  // the kernel refuses do not count. `deviations`: how many standard deviations of such a sample a share may
  // lie below its floor. A verdict uses kByChance.
  static constexpr double kByChance = 3;
  std::vector<std::string> broken_floors(const Refused& refused = {}, double deviations = 0) const;
  // The floors that are lowered or dropped, and why: the domain cannot reach them, or the kernel refuses the
  // feature.
  std::vector<std::string> eased_floors(const Refused& refused = {}) const;
  std::string table() const;
};

// The share of each floor that a domain allows. Unrestricted cases are drawn and moved into the domain
// before any cost is cut. The result is the share that still has the feature, divided by the share that had
// it.
std::map<std::string, double> reach_in_domain(const GeneratorConfig& config);
// For a kernel without a forward pass: the floors are about keys, and other operations have none.
std::map<std::string, double> no_floor_within_reach();

}  // namespace attnfuzz
