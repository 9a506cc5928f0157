// Coverage of the table of axes: how many classes, pairs and triples of classes of different axes a run has
// met.
//
// Coverage is measured against what is *reachable*: the sets of classes that some legal case has at once.
// Nothing declares them; a case proves them. A set that was met is reachable. A set that was not met is
// reachable if a case can be built that has it, is legal, costs no more than a drawn case may, and is not
// refused by the kernel. Each class and each pair that was not met is tried in this way. There are too many
// triples: a sample of those whose pairs are all reachable is tried, and the rest is estimated from the sample.
//
//   Coverage met;
//   met.add({c, c.problem, plan.tile_q, plan.tile_k, c.problem.num_splits});
//   std::puts(text(measure(met, config)).c_str());
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "properties/case/features/generator_config.h"

namespace attnfuzz {

struct Tiled;  // properties/case/features/feature.h

class Coverage {
 public:
  Coverage();
  void add(const Tiled& x);
  void merge(const Coverage& other);

  // Classes are numbered over the whole table. Arguments are in ascending order.
  bool met(uint32_t a) const;
  bool met(uint32_t a, uint32_t b) const;
  bool met(uint32_t a, uint32_t b, uint32_t c) const;
  uint64_t cases() const { return cases_; }

  // Serialization, for jobs that report to their parent and for the campaign's folder. of_bytes() throws
  // std::runtime_error if the bytes belong to another table of axes.
  std::string bytes() const;
  static Coverage of_bytes(const std::string& bytes);

 private:
  uint64_t cases_ = 0;
  std::vector<uint64_t> classes_, pairs_, triples_;  // one bit each
};

struct Covered {
  struct Share {
    uint64_t met = 0, legal = 0;
    double percent() const {
      return legal == 0 ? 100 : 100.0 * static_cast<double>(met) / static_cast<double>(legal);
    }
  };
  Share classes, pairs, triples;  // the number of legal triples is an estimate
  // Legal sets that were not met, in words: all classes, and at most `kNamed` pairs, spread evenly.
  std::vector<std::string> classes_missing, pairs_missing;
};
inline constexpr size_t kNamed = 12;

// `at_once`: 1 measures classes, 2 pairs too, 3 triples too.
Covered measure(const Coverage& met, const GeneratorConfig& config, int at_once = 3);
std::string text(const Covered& covered);

}  // namespace attnfuzz
