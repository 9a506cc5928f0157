// One instruction of inline PTX as it runs, and the form of the tables that say what instructions do.
//
//   inline constexpr auto kTable = Table{
//       row(Named{"mul.lo", "u32"}, [](auto s) { s.put(s.u(1) * s.u(2)); }),
//   };
//
// A row is a condition and an action. The first row whose condition holds for an instruction runs it, and only
// that row's action is compiled for it. `s` is the instruction's Step: operand 0 is the destination, the
// sources follow.
#pragma once

#include <string_view>
#include <type_traits>
#include <utility>

#include "kernels/cuda_source/cuda/builtins.h"
#include "kernels/cuda_source/cuda/ptx/text.h"
#include "kernels/cuda_source/cuda/ptx/values.h"

namespace simt::ptx {

// An instruction or a type that no table has: the compiler prints this name, with the instruction in it.
template <Text kText, int kAt>
struct Unknown {
  static constexpr bool kKnown = false;
};

template <class F>
inline Float16Pair<F> pair_of(uint32_t bits) {
  return __builtin_bit_cast(Float16Pair<F>, bits);
}

// Instruction number kAt of the text. The opcode, its type (the last part) and the operands are constants.
template <Text kText, int kAt>
struct Step {
  static constexpr const Instruction& kNow = Parsed<kText>::kProgram.instructions[kAt];
  static constexpr std::string_view kOp = kNow.op;
  static constexpr std::string_view kType = last_part(kOp);
  static constexpr const auto& kOperands = kNow.operands;
  const Context& c;

  // Operand i as a T, as an fp32 number, as a 32-bit word.
  template <class T>
  T in(int i) const {
    return c.read<T>(kOperands[i].parts[0]);
  }
  float f(int i) const { return in<float>(i); }
  uint32_t u(int i) const { return in<uint32_t>(i); }
  // The words of operand i, which is in braces.
  void words(int i, uint32_t* to) const {
    for (int part = 0; part < kOperands[i].count; ++part) to[part] = c.read<uint32_t>(kOperands[i].parts[part]);
  }
  // Writes the destination, or one part of it.
  template <class T>
  void put(T value) const {
    c.write(kOperands[0].parts[0], value);
  }
  template <class T>
  void put_part(int part, T value) const {
    c.write(kOperands[0].parts[part], value);
  }

  // Writes apply(a, b, d) of operands 1 to 3 in the type of the instruction. Numbers of 16 bits are computed in
  // fp32.
  template <class F>
  void arithmetic(F apply) const {
    if constexpr (kType == "f32") {
      put(static_cast<float>(apply(f(1), f(2), f(3))));
    } else if constexpr (kType == "f64") {
      put(static_cast<double>(apply(in<double>(1), in<double>(2), in<double>(3))));
    } else if constexpr (kType == "f16" || kType == "bf16") {
      using H = std::conditional_t<kType == "f16", half, __nv_bfloat16>;
      put(H(apply(float(in<H>(1)), float(in<H>(2)), float(in<H>(3)))));
    } else if constexpr (kType == "f16x2" || kType == "bf16x2") {
      using Format = std::conditional_t<kType == "f16x2", HalfFormat, BFloatFormat>;
      const auto a = pair_of<Format>(u(1)), b = pair_of<Format>(u(2)), d = pair_of<Format>(u(3));
      put(Float16Pair<Format>(Float16Bits<Format>(apply(float(a.x), float(b.x), float(d.x))),
                              Float16Bits<Format>(apply(float(a.y), float(b.y), float(d.y)))));
    } else if constexpr (is_integer(kType)) {
      using I = Integer<bytes_of(kType), kType[0] == 's'>;
      put(static_cast<I>(apply(in<I>(1), in<I>(2), in<I>(3))));
    } else {
      static_assert(Unknown<kText, kAt>::kKnown, "inline PTX: a type that the executor does not know");
    }
  }
};

// Conditions of rows. Any constexpr predicate of an Instruction is one as well.
// The opcode begins with these parts. `type`: its last part, if one is named; "int": any integer type.
struct Named {
  std::string_view parts, type = "";
  constexpr bool operator()(const Instruction& now) const {
    const std::string_view last = last_part(now.op);
    return begins(now.op, parts) && (type.empty() || (type == "int" ? is_integer(last) : last == type));
  }
};
// The whole opcode is one of these.
struct Exactly {
  std::string_view op, or_op = "";
  constexpr bool operator()(const Instruction& now) const { return now.op == op || now.op == or_op; }
};

template <class Condition, class Action>
struct Row {
  Condition takes;
  Action run;
};
template <class Condition, class Action>
constexpr Row<Condition, Action> row(Condition takes, Action run) {
  return {takes, run};
}

template <size_t kAt, class Entry>
struct Numbered {
  Entry entry;
};
template <class Numbers, class... Entries>
struct NumberedAll;
template <size_t... kAt, class... Entries>
struct NumberedAll<std::index_sequence<kAt...>, Entries...> : Numbered<kAt, Entries>... {
  static constexpr size_t kSize = sizeof...(Entries);
  constexpr NumberedAll(Entries... entries) : Numbered<kAt, Entries>{entries}... {}

  // The number of the first entry that takes the instruction; kSize if none does.
  constexpr size_t find(const Instruction& now) const {
    size_t at = 0;
    (void)((static_cast<const Numbered<kAt, Entries>&>(*this).entry.takes(now) || (++at, false)) || ...);
    return at;
  }
  constexpr bool takes(const Instruction& now) const { return find(now) < kSize; }
};
// Entries are rows, or tables. A table takes what one of its entries takes. (A std::tuple of all rows cost each
// source half of its compilation.)
template <class... Entries>
struct Table : NumberedAll<std::index_sequence_for<Entries...>, Entries...> {
  using NumberedAll<std::index_sequence_for<Entries...>, Entries...>::NumberedAll;
};
template <class... Entries>
Table(Entries...) -> Table<Entries...>;

template <size_t kAt, class Entry>
constexpr const Entry& entry_of(const Numbered<kAt, Entry>& table) {
  return table.entry;
}

}  // namespace simt::ptx
