// Random choices for Operation::shape(). It gets a drawn case but no random generator, so the choices derive
// from the case.
#pragma once

#include "base/random.h"
#include "properties/case/case.h"
#include "properties/case/rng.h"

namespace attnfuzz {

class ShapeDice final : public Rng {
 public:
  ShapeDice(const Case& drawn, uint64_t salt) : random_{salt} {
    for (const uint64_t part :
         {drawn.q.seed, drawn.k.seed, drawn.v.seed, static_cast<uint64_t>(drawn.problem.seq_q),
          static_cast<uint64_t>(drawn.problem.seq_k), drawn.env.schedule_seed})
      random_.state = finish64(random_.state ^ part) + kSplitMixStep;
  }
  uint64_t bits() override { return random_(); }

 private:
  SplitMix64 random_;
};

}  // namespace attnfuzz
