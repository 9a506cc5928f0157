// Inline PTX on the executor. `asm volatile("..." : outputs : inputs)` is translated to
//
//   ptx::run<"...">(place, ptx::out(a), ptx::in(b), ...)           (kernels/cuda_source/translate)
//
// The compiler reads the text: instructions between semicolons, registers that the text declares (.reg), guards
// (@p), operands %0, {%0, %1}, [%2 + 16], numbers, %laneid and the like. An instruction that no table has does
// not compile, nor does one with a modifier, an operand or a special register that its row does not name. The
// compiler names the instruction, the file and the line. Meanings are those of the PTX manual; approximations
// (ex2.approx) are as accurate as kernels/primitives/math.h says. Modifiers of caches, of rounding to nearest
// and of memory order are known and have no effect.
#pragma once

#include <utility>

#include "kernels/cuda_source/cuda/ptx/arithmetic.h"
#include "kernels/cuda_source/cuda/ptx/memory.h"
#include "kernels/cuda_source/cuda/ptx/step.h"
#include "kernels/cuda_source/cuda/ptx/text.h"
#include "kernels/cuda_source/cuda/ptx/together.h"
#include "kernels/cuda_source/cuda/ptx/values.h"

namespace simt::ptx {

// All instructions that the executor knows. The first row that accepts an instruction runs it.
inline constexpr auto kInstructions =
    Table{kMoves, kMemory, kFunctions, kArithmetic, kBits, kSelections, kConversions, kWarp, kBlock};

// True if the executor knows the instruction, and the special registers that it reads.
constexpr bool knows(const Instruction& now) {
  for (int i = 0; i < now.count; ++i) {
    for (const Value& part : now.operands[i].parts) {
      if (part.kind == Value::kSpecial && !known_special(part.name)) return false;
    }
  }
  return now.guard.kind != Value::kSpecial && kInstructions.takes(now);
}

template <Text kText, int kAt>
inline void step(const Context& c) {
  using Now = Step<kText, kAt>;
  if constexpr (knows(Now::kNow)) {
    constexpr size_t kTable = kInstructions.find(Now::kNow);
    constexpr const auto& kRows = entry_of<kTable>(kInstructions);
    if (c.holds(Now::kNow.guard)) entry_of<kRows.find(Now::kNow)>(kRows).run(Now{c});
  } else {
    static_assert(Unknown<kText, kAt>::kKnown,
                  "inline PTX: an instruction, a modifier or an operand that the executor does not know");
  }
}

template <Text kText, class... Operands>
inline void run(Place here, Operands... operands) {
  static_assert(Parsed<kText>::kProgram.legible, "inline PTX: text that the executor cannot read");
  Cell cells[sizeof...(Operands) + 1] = {operands.cell()..., Cell{}};
  Registers<Parsed<kText>::kProgram.register_count> registers;
  const Context context{cells, registers.values, here};
  [&]<int... kAt>(std::integer_sequence<int, kAt...>) {
    (step<kText, kAt>(context), ...);
  }(std::make_integer_sequence<int, Parsed<kText>::kProgram.count>());
}

}  // namespace simt::ptx
