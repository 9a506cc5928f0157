// Ordinary problems: shapes and data as models run them.
//
// The rest of the draw hits borders and combines rare features, on small sizes because small cases are
// cheap. A kernel may still fail in everyday use: for D = 128 from 1,024 keys on, in a decode path chosen
// by length, in a merge of many splits. One case in nine is therefore ordinary. It has Gaussian data, the
// head dimensions of models, and heads in groups of 1, 4 or 8. It is a decode, a chunked prefill or a
// prefill. Its tensors are dense, in the order (batch, head, position) or (batch, position, head). It
// seldom has more than one of a softcap, a window, key lengths and a bias for each head. A decode is cheap,
// so it has 1,024 keys and more.
//
// One case in 90 is ordinary and may exceed the usual price, up to far_work(): six by six tiles at D
// = 64, 256 queries with 2,048 keys, or 16,384 keys at D = 128.
//
//   Case c;
//   for (const Phase phase : phases)
//     draw_phase(phase, config, rng, c), make_ordinary(phase, config, rng, {7, false}, c);
#pragma once

#include "properties/draw/draw.h"

namespace attnfuzz {

// The exact_work() that a case beyond the usual price may cost. Such a case is drawn with a configuration
// of that work.
int64_t far_work(const GeneratorConfig& config);

struct Ordinary {
  uint64_t number;  // number among the ordinary cases; kinds of problems and lengths take turns
  bool far;         // beyond the usual price; the configuration's work is far_work()
};
// Replaces what a phase has drawn by something ordinary.
void make_ordinary(Phase phase, const GeneratorConfig& config, Rng& rng, const Ordinary& which, Case& c);

// Sizes of a decode whose keys are cut into 9 to about 200 splits, most of which hold keys.
void draw_many_splits(const GeneratorConfig& config, Rng& rng, Case& c);

// One to four queries, and up to 130 batch entries, KV heads or query heads per KV head.
void draw_wide(const GeneratorConfig& config, Rng& rng, Case& c);

}  // namespace attnfuzz
