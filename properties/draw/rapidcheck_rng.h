// An Rng over RapidCheck's own generator. Unlike rc::gen::inRange, it does not scale numbers by
// RapidCheck's size.
#pragma once

#include <rapidcheck.h>

#include "properties/case/rng.h"

namespace attnfuzz {

class RapidcheckRng final : public Rng {
 public:
  explicit RapidcheckRng(const rc::Random& random) : random_(random) {}
  uint64_t bits() override { return random_.next(); }

 private:
  rc::Random random_;
};

}  // namespace attnfuzz
