// A feature of a case, in one room: what it is, how it is taken away, drawn,
// mutated, told and refused. Whatever goes over the features of a case (the draw,
// the mutations, the reducer, the classification, the words) is a loop over this.
//
// A new feature is its field in case.h and codec_fields.h, one file NAME.cc here
// and one line of CMakeLists.txt. It has to say something, if only `none`, to each
// question: a member left out does not compile.
//
//   for (const Feature* feature : all_features()) feature->tidy(c);
#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "properties/case/aim.h"
#include "properties/case/case.h"
#include "properties/case/cost.h"
#include "properties/case/dice.h"
#include "properties/case/switches.h"

namespace attnfuzz {

inline constexpr struct None {
} none;

// A function or none, said either way: none does nothing and answers R().
template <typename Signature>
class Hook;
template <typename R, typename... Args>
class Hook<R(Args...)> {
 public:
  constexpr Hook(None) {}
  template <typename F>
    requires std::convertible_to<F, R (*)(Args...)>
  constexpr Hook(F function) : function_(function) {}
  R operator()(Args... args) const { return function_ ? function_(std::forward<Args>(args)...) : R(); }

 private:
  R (*function_)(Args...) = nullptr;
};

// Several or none, said either way.
template <typename T>
class List : public std::span<const T> {
 public:
  constexpr List(None) {}
  template <size_t N>
  constexpr List(const T (&all)[N]) : std::span<const T>(all) {}
  template <size_t N>
  constexpr List(const std::array<T, N>& all) : std::span<const T>(all) {}
};

// What the reducer turns off, and its place among all that it can turn off.
struct Switches {
  constexpr Switches(None) : place(0), all(none) {}
  constexpr Switches(int at, List<Switch> switches) : place(at), all(switches) {}
  int place;
  List<Switch> all;
};

// What a mutation draws anew, or a crossover takes from the other parent, as a whole.
struct Part {
  const char* name;
  int weight;  // how often it is drawn anew, beside others
  void (*take)(Case& to, const Case& from);
};

// A case on a kernel's tiles.
struct Placed {
  const Case& c;
  const Problem& p;
  int64_t tile_q, tile_k, splits;
};

// What a draw is classified by, and what a fuzzer collects in pairs. Ledgers hold
// these names: one that is changed is one that old ledgers miss.
enum class MarkFor : uint8_t { kClasses, kPairs, kBoth };
struct Mark {
  const char* name;
  bool (*there)(const Placed& x);
  MarkFor use = MarkFor::kClasses;
};

// How a kernel is asked for the feature alone, and how a case is spared it.
struct Refusal {
  const char* name;  // as people are told: "windows"
  void (*ask)(Problem& p);
  void (*spare)(Case& c);
  std::array<const char*, 2> properties = {};  // that are about nothing else
  const char* floor = nullptr;                 // of the draw, that cannot be kept then (generator.h)
};

// For whom a case is drawn, with which dice and on which of its tiles.
struct Toss {
  const Aim& aim;
  Dice& dice;
  int64_t tile_q, tile_k;
};
// The parts of a draw, one after the other; none of them: it is never drawn.
enum class Phase : uint8_t { kNone, kSizes, kVisibility, kValues, kMemory };

struct Draw {
  constexpr Draw(None) : phase(Phase::kNone), draw(none) {}
  constexpr Draw(Phase in, Hook<void(const Toss& toss, Case& c)> function) : phase(in), draw(function) {}
  Phase phase;
  Hook<void(const Toss& toss, Case& c)> draw;
};

// A number that a mutation doubles, halves, moves by one or on to a tile's border.
struct MovableNumber {
  int64_t now, least, tile, other;  // other: a number to make it equal to
  std::function<void(Case&, int64_t)> set;
};

// Where in a description the words stand.
enum class Told : uint8_t { kMask, kNumber, kData, kSurroundings, kCalls };
struct Words {
  Told where;
  int place;  // among those of the same
  void (*say)(const Case& c, std::vector<std::string>& words);
};

struct Feature {
  // For the reducer: what can be turned off.
  Switches switches;
  Hook<void(const Case& c, Cost& cost)> cost;
  // The simplest forms in which it shows a bug by itself, on keys of such tiles.
  Hook<void(int64_t tile_k, std::vector<std::function<void(Case&)>>& forms)> forms;

  // For draws and mutations: in the order of the list, each on its own dice.
  Draw draw;
  List<Part> parts;
  Hook<void(const Toss& toss, const Case& c, std::vector<MovableNumber>& numbers)> numbers;
  // Another value; false if there is none to change.
  List<bool (*)(const Toss& toss, Case& c)> steps;

  List<Refusal> refusals;
  List<Mark> marks;
  List<Words> words;

  // What is left of it once what it hangs on is gone.
  Hook<void(Case& c)> tidy;
  // Why it cannot be run, if it cannot: which field, and what it must be.
  Hook<std::optional<std::string>(const Case& c)> illegal;
};

// In the order in which they are drawn; CMakeLists.txt lists them.
std::span<const Feature* const> all_features();

// Case{}, as which everything is that is off.
const Case& plain_case();

// Of fields given by a function that ties them: `[](auto& c) { return std::tie(c.prefill); }`.
template <auto kFields>
void take(Case& to, const Case& from) {
  kFields(to) = kFields(from);
}
template <auto kFields>
bool is_set(const Case& c) {
  return kFields(c) != kFields(plain_case());
}
template <auto kFields>
void unset(Case& c) {
  take<kFields>(c, plain_case());
}
// A switch of these fields that has one form: as found.
template <auto kFields>
constexpr Switch whole_switch(const char* name) {
  return {name, is_set<kFields>, unset<kFields>, [](Case& to, const Case& from, int choice) {
            take<kFields>(to, from);
            return choice == 0;
          }};
}
// A switch of one field: first with this value, then as found.
template <auto kFields, auto kSimplest>
constexpr Switch value_switch(const char* name) {
  return {name, is_set<kFields>, unset<kFields>, [](Case& to, const Case& from, int choice) {
            take<kFields>(to, from);
            if (choice == 0) kFields(to) = std::make_tuple(kSimplest);
            return choice < 2;
          }};
}

}  // namespace attnfuzz
