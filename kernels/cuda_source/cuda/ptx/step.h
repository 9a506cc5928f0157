// One instruction of inline PTX as it runs, and the form of the tables that say what instructions do.
//
//   inline constexpr auto kTable = Table{
//       row(Named{"fma.rn", "f32", "ftz"}, 4, [](auto s) { s.put(fmaf(s.f(1), s.f(2), s.f(3))); }),
//   };
//
// A row is a condition, the number of operands and an action. The first row that takes an instruction runs it,
// and only that row's action is compiled for it. `s` is the instruction's Step: operand 0 is the destination,
// the sources follow. A row takes only the modifiers that it names and as many operands as it has: what no row
// takes does not compile.
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

// .ftz: a subnormal number becomes 0 with its sign. There is no branch, because MemorySanitizer reports
// branches on undefined values.
inline float flushed(float x) {
  const auto bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t keep = 0x80000000u | -static_cast<uint32_t>((bits & 0x7F800000u) != 0);
  return __builtin_bit_cast(float, bits& keep);
}

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
  float f(int i) const {
    const float x = in<float>(i);
    return has(kOp, "ftz") ? flushed(x) : x;
  }
  uint32_t u(int i) const { return in<uint32_t>(i); }
  // True if operand i is a register declared as .pred.
  static constexpr bool is_predicate(int i) {
    const Value& value = kOperands[i].parts[0];
    return value.kind == Value::kRegister && Parsed<kText>::kProgram.predicate[value.number];
  }
  // The comparison of setp: the part of the opcode after "setp".
  static constexpr std::string_view comparison() { return kOp.substr(5, kOp.find('.', 5) - 5); }
  // The words of operand i, which is in braces.
  void words(int i, uint32_t* to) const {
    for (int part = 0; part < kOperands[i].count; ++part) to[part] = c.read<uint32_t>(kOperands[i].parts[part]);
  }
  // Writes the destination, or one part of it.
  template <class T>
  void put(T value) const {
    if constexpr (std::is_same_v<T, float> && has(kOp, "ftz")) {
      c.write(kOperands[0].parts[0], flushed(value));
    } else {
      c.write(kOperands[0].parts[0], value);
    }
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

// True if `part` is one of the words of `list`, which blanks separate.
constexpr bool is_one_of(std::string_view part, std::string_view list) {
  while (!list.empty()) {
    const std::string_view word = list.substr(0, list.find(' '));
    if (part == word) return true;
    list.remove_prefix(word.size() < list.size() ? word.size() + 1 : word.size());
  }
  return false;
}

// The opcode is `parts`, then any of `modifiers`, then one of `types`; "int" among them is any integer type.
// Without types it ends with a modifier.
struct Named {
  std::string_view parts, types = "", modifiers = "";
  constexpr bool operator()(const Instruction& now) const {
    if (!begins(now.op, parts)) return false;
    std::string_view rest = now.op.substr(parts.size());
    if (!types.empty()) {
      const std::string_view last = last_part(now.op);
      if (rest.empty() || !(is_one_of(last, types) || (is_one_of("int", types) && is_integer(last))))
        return false;
      rest.remove_suffix(last.size() + 1);
    }
    while (!rest.empty()) {
      rest.remove_prefix(1);
      const std::string_view part = rest.substr(0, rest.find('.'));
      if (!is_one_of(part, modifiers)) return false;
      rest.remove_prefix(part.size());
    }
    return true;
  }
};
// The whole opcode is one of these.
struct Exactly {
  std::string_view op, or_op = "";
  constexpr bool operator()(const Instruction& now) const { return now.op == op || now.op == or_op; }
};

// True if the instruction has `count` operands, and each is one value.
constexpr bool has_operands(const Instruction& now, int count) {
  for (int i = 0; i < now.count; ++i) {
    if (now.operands[i].count != 1 || now.operands[i].address || now.operands[i].parts[0].negated) return false;
  }
  return now.count == count;
}

template <class Condition, class Action>
struct Row {
  Condition condition;
  int operands;  // -1: the condition says which operands the instruction may have
  Action run;
  constexpr bool takes(const Instruction& now) const {
    return condition(now) && (operands < 0 || has_operands(now, operands));
  }
};
template <class Condition, class Action>
constexpr Row<Condition, Action> row(Condition condition, int operands, Action run) {
  return {condition, operands, run};
}
template <class Condition, class Action>
constexpr Row<Condition, Action> row(Condition condition, Action run) {
  return {condition, -1, run};
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
