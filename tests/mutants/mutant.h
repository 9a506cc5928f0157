// Functions for the generated copy of the kernels: every place that a mutant changes
// tests at run time whether that mutant is switched on.
//
//   if (attn_mutants::binary<Less, LessEqual>(17, i, n))   // i < n, or i <= n as mutant 17
//   (attn_mutants::on(23) ? void() : void(cta_sync()))     // mutant 23: dropped
//
// ATTNFUZZ_MUTANT names the mutant when the library is loaded. Without it, or with 0, the
// kernel is unchanged. In code that the compiler evaluates no mutant is switched on.
#pragma once

#include <functional>
#include <type_traits>

extern "C" char* getenv(const char*) noexcept;

namespace attn_mutants {

inline int chosen() {
  int id = 0;
  const char* text = getenv("ATTNFUZZ_MUTANT");
  for (; text != nullptr && *text >= '0' && *text <= '9'; ++text) id = id * 10 + (*text - '0');
  return id;
}

inline const int active = chosen();

constexpr bool on(int id) { return !std::is_constant_evaluated() && active == id; }

struct First {
  template <class A, class B>
  constexpr A operator()(const A& a, const B&) const {
    return a;
  }
};
struct Second {
  template <class A, class B>
  constexpr B operator()(const A&, const B& b) const {
    return b;
  }
};

using Less = std::less<>;
using LessEqual = std::less_equal<>;
using Greater = std::greater<>;
using GreaterEqual = std::greater_equal<>;
using Equal = std::equal_to<>;
using NotEqual = std::not_equal_to<>;
using Plus = std::plus<>;
using Minus = std::minus<>;
using Times = std::multiplies<>;
using Divided = std::divides<>;
using Modulo = std::modulus<>;

// Right(a, b). Mutant first + i: the i-th of Wrong.
template <class Right, class... Wrong, class A, class B>
constexpr auto binary(int first, const A& a, const B& b) {
  using Result = std::decay_t<decltype(Right{}(a, b))>;
  if (std::is_constant_evaluated()) return static_cast<Result>(Right{}(a, b));
  const int which = active - first;
  if (static_cast<unsigned>(which) >= sizeof...(Wrong)) return static_cast<Result>(Right{}(a, b));
  Result result{};
  int i = 0;
  ((i++ == which ? (void)(result = static_cast<Result>(Wrong{}(a, b))) : void()), ...);
  return result;
}

// a = Right(a, b). Mutant first + i: the i-th of Wrong.
template <class Right, class... Wrong, class A, class B>
constexpr void update(int first, A&& a, const B& b) {
  a = static_cast<std::remove_reference_t<A>>(binary<Right, Wrong...>(first, a, b));
}

// x. Mutant `id`: x + 1.
template <class X>
constexpr X next(int id, const X& x) {
  return on(id) ? static_cast<X>(x + 1) : x;
}

// value. Mutant `id`: wrong.
template <class X, class Y>
constexpr X instead(int id, const X& value, const Y& wrong) {
  return on(id) ? static_cast<X>(wrong) : value;
}

// Marks a term of a formula; x is a number or an Eigen array. Returns x, or -x as mutant `first`, or 0 as the next.
template <class X>
constexpr auto term(int first, const X& x) {
  if constexpr (std::is_arithmetic_v<X>)
    return on(first) ? static_cast<X>(-x) : on(first + 1) ? X{} : x;
  else
    return (on(first) ? -1.0 : on(first + 1) ? 0.0 : 1.0) * x;
}
// A factor x. Mutant `id`: 1.
template <class X>
constexpr auto factor(int id, const X& x) {
  if constexpr (std::is_arithmetic_v<X>)
    return on(id) ? X{1} : x;
  else
    return (on(id) ? 0.0 : 1.0) * x + (on(id) ? 1.0 : 0.0);
}
// |x| of an array. Mutant `id`: x.
template <class X>
auto size(int id, const X& x) {
  return (on(id) ? 0.0 : 1.0) * x.abs() + (on(id) ? 1.0 : 0.0) * x;
}

template <class A, class B>
constexpr auto smaller(const A& a, const B& b) {
  return b < a ? b : a;
}
template <class A, class B>
constexpr auto larger(const A& a, const B& b) {
  return a < b ? b : a;
}

}  // namespace attn_mutants
