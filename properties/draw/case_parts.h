// The parts that a case is made of: what a mutation draws anew or a crossover
// takes from the other parent, each as a whole.
//
//   for (const Part& part : parts())
//     if (dice.coin()) part.take(child, other);
#pragma once

#include <cstdint>
#include <span>

#include "properties/case/case.h"
#include "properties/draw/dice.h"
#include "properties/draw/generator.h"

namespace attnfuzz {

// Which function of draw.h draws it.
enum class PartOf : uint8_t { kSizes, kVisibility, kValues, kMemory };

struct Part {
  const char* name;
  PartOf of;
  int weight;  // how often it is drawn anew, beside others
  void (*take)(Case& to, const Case& from);
};

std::span<const Part> parts();

// A copy of `c` that differs in this part alone, drawn for the sizes of `c`. The
// same as `c` if no draw of a few dozen differs. Not tidied, perhaps not legal.
Case redraw(const Part& part, const Case& c, const Aim& aim, Dice& dice);

}  // namespace attnfuzz
