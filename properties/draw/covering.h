// A covering design: each row lists classes that one case should have at once. Rows contain the pairs that
// chance meets least.
//
// The first request for a row draws two thousand cases without the design and counts each pair of
// classes. The pairs met least are joined into rows of up to eight classes, the rarest first.
// Every second case takes the next row, and the next single class. Every fifth row has odd strides. The others
// alternate between rows without mask, bias and softcap and rows with them, because most kernels have a fast
// path that any of these disables. A row depends only on the configuration, the seed and the number.
//
// The same cases also give the triples of steering classes that chance meets. Of several drawn rows of
// steering classes, together() takes the one with the most triples that those cases did not have.
//
//   config.covering = std::make_shared<Covering>(config);
//   for (const AxisRequest& r : config.covering->row(seed, number)) axes()[r.axis].make(context, r.at, c);
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "properties/case/features/generator_config.h"
#include "properties/case/rng.h"

namespace attnfuzz {

struct AxisRequest {
  size_t axis;
  int at;
};

// True if the problem has a mask, a bias or a softcap; or if the request's class gives a case one of these.
bool adds_to_scores(const Problem& p);
bool adds_to_scores(const AxisRequest& request);

inline bool is_empty(const Problem& p) { return p.batch == 0 || p.seq_q == 0 || p.seq_k == 0; }

// Draws one class for each of about ten steering axes, independently. A bug that needs classes of four such
// axes at once then has a good chance. Classes that leave nothing to compute are left out.
std::vector<AxisRequest> together(Rng& rng);

// The triples of classes of steering axes that some cases had.
class SeenTriples {
 public:
  void add(const std::vector<AxisRequest>& steering);
  // The share of the row's triples that were not seen, 0 to 1.
  double unseen(const std::vector<AxisRequest>& row) const;

 private:
  std::vector<bool> seen_;  // by the three classes' numbers among the steering axes, ascending
};

class Covering {
 public:
  // Counts what `config` draws without a covering.
  explicit Covering(GeneratorConfig config);
  // Draws several rows with attnfuzz::together() and returns the one with the largest share of unseen triples.
  std::vector<AxisRequest> together(Rng& rng) const;
  // A row of classes of different axes, in the order of the table.
  std::vector<AxisRequest> row(uint64_t seed, uint64_t number) const;
  size_t size() const;  // rows until the first one comes again
  // True if row `number` asks for odd classes (CaseAxis::odd), as every fifth row does.
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
  mutable Turn plain_, adding_, odd_;  // rows without score modifiers, with them, and with odd strides
  mutable SeenTriples seen_;
};

}  // namespace attnfuzz
