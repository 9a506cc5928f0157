// Random choices for Operation::shape(). It gets a drawn case but no random generator, so the choices derive
// from the case.
#pragma once

#include "base/random.h"
#include "properties/case/case.h"
#include "properties/case/rng.h"

namespace attnfuzz {

// A number that depends only on the drawn case and on `begin`.
inline uint64_t number_of(const Case& drawn, uint64_t begin) {
  uint64_t x = begin;
  for (const uint64_t part :
       {drawn.q.seed, drawn.k.seed, drawn.v.seed, static_cast<uint64_t>(drawn.problem.seq_q),
        static_cast<uint64_t>(drawn.problem.seq_k), drawn.env.schedule_seed}) {
    x = (x ^ part) * kSplitMixStep;
    x ^= x >> 29;
  }
  return x >> 8;
}

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

// Makes `drawn` a problem of an operation on rows alone: without keys, Q, K and V.
inline Case with_rows_only(const Case& drawn, uint64_t feature) {
  Case c = drawn;
  const Problem& from = drawn.problem;
  c.problem = Problem{};
  c.problem.dtype = from.dtype;
  c.problem.batch = from.batch;
  c.problem.heads_q = c.problem.heads_kv = from.heads_q;
  c.problem.seq_q = from.seq_q;
  c.problem.seq_k = 0;
  c.problem.dim_v = from.dim_v;
  c.problem.features = feature | (from.features & ATTN_FEATURE_F32);
  c.q = c.k = c.v = Fill{};
  c.once = {};
  c.nan_beyond_lengths = false;
  return c;
}

}  // namespace attnfuzz
