// Random numbers of RapidCheck's own generator, without the scaling by size that
// rc::gen::inRange does.
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
