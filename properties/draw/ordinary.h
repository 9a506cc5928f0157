// Ordinary problems: what models run, drawn with the sizes that they have.
//
// Every other class of the draw lands on borders and puts rare things together, on small sizes because small
// cases are cheap. A kernel may still be wrong for what everybody runs: D = 128 from 1,024 keys on, a decode
// path chosen by length, a merge of many splits. One case in nine is therefore ordinary: Gaussian data, the
// head dims of models, decode, chunked prefill or prefill, heads in groups of 1, 4 and 8, dense tensors
// ordered (batch, head, position) or (batch, position, head), and seldom more than one of a soft cap, a
// window, key lengths and a bias for each head. Decode has 1,024 keys and more: it is cheap.
//
// One case in a hundred is ordinary and goes beyond the price that other cases keep to, up to far_work(): six
// by six tiles at D = 64, 256 queries of 2,048 keys, 16,384 keys at D = 128.
//
//   Case c;
//   for (const Phase phase : phases) draw_phase(phase, config, rng, c), make_ordinary(phase, config, rng, {7, false}, c);
#pragma once

#include "properties/draw/draw.h"

namespace attnfuzz {

// What a case beyond the usual price may cost: exact_work(). It is to be drawn by a configuration of that work.
int64_t far_work(const GeneratorConfig& config);

struct Ordinary {
  uint64_t number;  // among ordinary ones: kinds of problems and lengths take turns
  bool far;         // beyond the usual price, of a configuration of far_work()
};
// Makes what a phase has drawn ordinary.
void make_ordinary(Phase phase, const GeneratorConfig& config, Rng& rng, const Ordinary& which, Case& c);

// Sizes of a decode whose keys are cut into many splits, most of which hold keys: from 9 to about 200.
void draw_many_splits(const GeneratorConfig& config, Rng& rng, Case& c);

// Sizes of one to four queries with many batch entries, KV heads or query heads a KV head, up to 130.
void draw_wide(const GeneratorConfig& config, Rng& rng, Case& c);

}  // namespace attnfuzz
