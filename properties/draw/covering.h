// A covering design: which classes of the table of axes cases are asked to have at once,
// so that pairs that chance alone meets least are met as well.
//
// Some thousand cases are drawn without it, once and when the first row is asked for, and each
// pair of classes is counted. Those met least are put together in rows of up to eight classes,
// the least met first; one case of two of a stream is asked for the next row, and for the
// next of all classes. Rows without a mask, a bias and a softcap take turns with the others,
// for there is a way through most kernels that these close; so do rows with odd strides. What is asked for
// depends on the configuration, the seed and the number alone.
//
// Triples of what steers a kernel are counted in the same cases: of several rows of steering classes that
// are drawn, together() takes the one with the most triples that these had not.
//
//   config.covering = std::make_shared<Covering>(config);
//   for (const AxisRequest& ask : config.covering->row(seed, number)) axes()[request.axis].make(context, request.at, c);
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "properties/case/generator_config.h"
#include "properties/case/rng.h"

namespace attnfuzz {

struct AxisRequest {
  size_t axis;
  int at;
};

// Whether a case has a mask, a bias or a softcap, and whether one that is made to be of this class has.
bool adds_to_scores(const Problem& p);
bool adds_to_scores(const AxisRequest& request);

inline bool is_empty(const Problem& p) { return p.batch == 0 || p.seq_q == 0 || p.seq_k == 0; }

// Classes of the axes that steer a kernel, each one's by itself and all at once: where sizes, what
// hides keys and what changes scores come together any way they can, four of them that must meet are four of
// a dozen. What would leave nothing to compute is not among them.
std::vector<AxisRequest> together(Rng& rng);

// Triples of classes of steering axes that cases had.
class SeenTriples {
 public:
  void add(const std::vector<AxisRequest>& steering);
  // Which share of a row's triples they had not.
  double unseen(const std::vector<AxisRequest>& row) const;

 private:
  std::vector<bool> seen_;  // by the three classes' numbers among those of steering axes, ascending
};

class Covering {
 public:
  // Of what a configuration draws where it has no covering.
  explicit Covering(GeneratorConfig config);
  // A row of together() whose triples were seen least.
  std::vector<AxisRequest> together(Rng& rng) const;
  // Of different axes, in the order of the table.
  std::vector<AxisRequest> row(uint64_t seed, uint64_t number) const;
  size_t size() const;  // rows until they come again
  // Whether the rows of this number ask for odd classes (CaseAxis::odd): one of five, and no other does.
  static bool odd(uint64_t number) { return number % 5 == 4; }

 private:
  void make() const;

  GeneratorConfig config_;
  mutable std::mutex making_;
  mutable bool made_ = false;
  struct Turn {
    std::vector<std::vector<AxisRequest>> rows;
    std::vector<AxisRequest> singles;
  };
  mutable Turn plain_, adding_, odd_;  // to scores
  mutable SeenTriples seen_;
};

}  // namespace attnfuzz
