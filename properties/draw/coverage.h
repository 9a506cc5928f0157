// How much of the axes' table a run has met: single classes, pairs and triples of
// classes of different axes.
//
// What is *legal* is what some legal case has at once. It is not declared but shown: what
// was met is legal, and of the rest whatever a case can be made to have that is legal, that
// costs no more than a drawn one may, and that the kernel does not refuse. Each single class
// and each pair that was not met is tried so. There are too many triples to try: of those
// whose pairs are all legal a sample is, and the rest is taken to be as the sample is.
//
//   Coverage met;
//   met.add({c, c.problem, plan.tile_q, plan.tile_k, c.problem.num_splits});
//   std::puts(text(measure(met, config)).c_str());
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "properties/case/generator_config.h"

namespace attnfuzz {

struct Tiled;  // properties/case/feature.h

class Coverage {
 public:
  Coverage();
  void add(const Tiled& x);
  void merge(const Coverage& other);

  // Of classes by their number in the whole table, ascending.
  bool met(uint32_t a) const;
  bool met(uint32_t a, uint32_t b) const;
  bool met(uint32_t a, uint32_t b, uint32_t c) const;
  uint64_t cases() const { return cases_; }

  // For a job to tell its parent, and for a campaign's folder. Throws std::runtime_error for what is
  // of another table of axes.
  std::string bytes() const;
  static Coverage of_bytes(const std::string& bytes);

 private:
  uint64_t cases_ = 0;
  std::vector<uint64_t> classes_, pairs_, triples_;  // a bit each
};

struct Covered {
  struct Share {
    uint64_t met = 0, legal = 0;
    double percent() const {
      return legal == 0 ? 100 : 100.0 * static_cast<double>(met) / static_cast<double>(legal);
    }
  };
  Share classes, pairs, triples;  // legal triples: an estimate
  // Legal, and not met, in words: all classes; of the pairs at most `kNamed`, spread evenly.
  std::vector<std::string> classes_missing, pairs_missing;
};
inline constexpr size_t kNamed = 12;

// Of single classes, of pairs too, or of triples too: nothing beyond `at_once` is tried.
Covered measure(const Coverage& met, const GeneratorConfig& config, int at_once = 3);
std::string text(const Covered& covered);

}  // namespace attnfuzz
