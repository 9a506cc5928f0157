// A covering design: which classes of the table of axes cases are asked to have at once,
// so that pairs that chance alone meets least are met as well.
//
// A few thousand cases are drawn without it, once for an aim, and each pair of classes is
// counted. Those met least are put together in rows of up to eight classes, the least met
// first; every other case of a stream is asked for the next row. What is asked for depends
// on the aim, the seed and the index alone.
//
//   aim.covering = covering_of(aim);
//   for (const Ask& ask : aim.covering->row(seed, index)) axes()[ask.axis].make(toss, ask.at, c);
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "properties/case/aim.h"

namespace attnfuzz {

struct Ask {
  size_t axis;
  int at;
};

class Covering {
 public:
  explicit Covering(std::vector<std::vector<Ask>> rows) : rows_(std::move(rows)) {}
  std::span<const Ask> row(uint64_t seed, uint64_t number) const;
  size_t size() const { return rows_.size(); }

 private:
  std::vector<std::vector<Ask>> rows_;
};

// Of an aim without one.
std::shared_ptr<const Covering> covering_of(const Aim& aim);

}  // namespace attnfuzz
