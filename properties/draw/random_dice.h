// Dice thrown by RapidCheck's own generator, without the scaling by size that
// rc::gen::inRange does.
#pragma once

#include <rapidcheck.h>

#include "properties/case/dice.h"

namespace attnfuzz {

class RandomDice final : public Dice {
 public:
  explicit RandomDice(const rc::Random& random) : random_(random) {}
  uint64_t bits() override { return random_.next(); }

 private:
  rc::Random random_;
};

}  // namespace attnfuzz
